//! What counts where several places say something.

use insta::assert_snapshot;
use lockkeeper::{
    config::{self, Config, Environment, Given, Problems, Single, Source},
    model::Naming,
};

use super::load_in;

fn with(given: &Given, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Config, Problems> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    load_in(folder.path(), given, variables)
}

fn ids(config: &Config) -> Vec<&str> {
    config.backends.iter().map(|spec| spec.id.as_str()).collect()
}

#[test]
fn nothing_said_is_the_demonstration_on_loopback() {
    let config = with(&Given::default(), &[], &[]).unwrap();
    assert_eq!(ids(&config), ["demo"]);
    assert_eq!((config.naming, &config.source), (Naming::Prefixed, &Source::Demo));
    assert_eq!(config.public_url(config.listen).as_str(), "http://127.0.0.1:8080");
    assert_snapshot!(config.source, @"none, so the built-in demonstration backend is offered");
}

#[test]
fn the_file_in_the_working_directory_is_used_and_named() {
    let files = [("lockkeeper.toml", "[backends.a]\ncommand = \"a\"")];
    let config = with(&Given::default(), &files, &[]).unwrap();
    assert_eq!(ids(&config), ["a"]);
    assert_snapshot!(config.source, @"lockkeeper.toml (found in the working directory)");
}

#[test]
fn a_backend_on_the_command_line_stands_alone_under_its_own_names() {
    let files = [("lockkeeper.toml", "[backends.a]\ncommand = \"a\"")];
    let words = ["npx", "-y", "@scope/server-memory"].map(str::to_owned).to_vec();
    let given = Given { single: Some(Single::Command(words)), ..Given::default() };
    let config = with(&given, &files, &[]).unwrap();
    assert_eq!((ids(&config), config.naming), (vec!["server-memory"], Naming::Plain));

    let given = Given { config: Some("lockkeeper.toml".into()), ..given };
    assert_snapshot!(with(&given, &files, &[]).unwrap_err(), @r#"
    --config: a backend is given on the command line, and the file has backends too
        leave one of them out
    "#);

    let given = Given { single: Some(Single::Url("https://docs.example.com/mcp".to_owned())), ..Given::default() };
    assert_eq!(ids(&with(&given, &[], &[]).unwrap()), ["docs-example-com"]);
    let given = Given { single: Some(Single::Url("docs.example.com".to_owned())), ..Given::default() };
    assert_snapshot!(with(&given, &[], &[]).unwrap_err(), @"--url: this is not a URL: relative URL without a base");
}

#[test]
fn the_command_line_goes_before_variables_and_variables_before_the_file() {
    let files = [("lockkeeper.toml", "listen = \"127.0.0.1:1\"\npublic_url = \"https://file.example\"")];
    let variables = [("LOCKKEEPER_LISTEN", "127.0.0.1:2"), ("LOCKKEEPER_PUBLIC_URL", "https://variable.example")];
    let given = Given { listen: Some("127.0.0.1:3".to_owned()), ..Given::default() };
    let config = with(&given, &files, &variables).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.public_url(config.listen).as_str(), "https://variable.example");
    let config = with(&Given::default(), &files, &variables[1..]).unwrap();
    assert_eq!(config.listen.port(), 1);
}

#[test]
fn a_gateway_that_others_reach_needs_its_public_url() {
    let given = Given { listen: Some("0.0.0.0:8080".to_owned()), ..Given::default() };
    assert_snapshot!(with(&given, &[], &[]).unwrap_err(), @r#"
    public_url: this must be said, because 0.0.0.0:8080 can be reached from other machines
        give the URL that clients use, such as `https://mcp.example.com`, as `public_url` in the file, `--public-url` or LOCKKEEPER_PUBLIC_URL; or listen on 127.0.0.1
    "#);
    // N-131
    for url in ["http://gw.example", "https://gw.example/", "https://gw.example#"] {
        let given = Given { public_url: Some(url.to_owned()), ..given.clone() };
        assert!(with(&given, &[], &[]).is_err(), "{url}");
    }
    let given = Given { public_url: Some("https://gw.example".to_owned()), ..given };
    assert!(with(&given, &[], &[]).is_ok());
}

#[test]
fn the_data_folder_is_found_though_the_rest_of_the_file_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let text = "data_dir = \"kept\"\n[backends.a]\nenv = { KEY = \"${MISSING}\" }\n";
    std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
    let found = config::data_dir(&Given::default(), &Environment::default(), folder.path()).unwrap();
    assert_eq!(found, folder.path().join("kept"));
    let variables = [("LOCKKEEPER_DATA_DIR", "/elsewhere")].into_iter().collect();
    let found = config::data_dir(&Given::default(), &variables, folder.path()).unwrap();
    assert_eq!(found, std::path::Path::new("/elsewhere"));
}
