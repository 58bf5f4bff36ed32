//! Precedence of the sources of the configuration.

use insta::assert_snapshot;
use lockkeeper::{
    config::{self, CommandLineOptions, Config, ConfigProblems, ConfigSource, Environment, SingleServer},
    model::Naming,
};

use super::load_in;

fn with(
    given: &CommandLineOptions,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> Result<Config, ConfigProblems> {
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
fn without_configuration_the_demonstration_runs_on_loopback() {
    let config = with(&CommandLineOptions::default(), &[], &[]).unwrap();
    assert_eq!(ids(&config), ["demo"]);
    assert_eq!((config.naming, &config.source), (Naming::Prefixed, &ConfigSource::Demo));
    assert_eq!(config.public_url(config.listen).as_str(), "http://127.0.0.1:8080");
    assert_snapshot!(config.source, @"none, so the built-in demonstration server runs");
}

#[test]
fn the_file_in_the_working_directory_is_used_and_named() {
    let files = [("lockkeeper.toml", "[servers.a]\ncommand = \"a\"")];
    let config = with(&CommandLineOptions::default(), &files, &[]).unwrap();
    assert_eq!(ids(&config), ["a"]);
    assert_snapshot!(config.source, @"lockkeeper.toml (found in the working directory)");
}

#[test]
fn a_backend_on_the_command_line_is_the_only_one_and_has_no_prefix() {
    let files = [("lockkeeper.toml", "[servers.a]\ncommand = \"a\"")];
    let words = ["npx", "-y", "@scope/server-memory"].map(str::to_owned).to_vec();
    let given = CommandLineOptions { single: Some(SingleServer::Command(words)), ..CommandLineOptions::default() };
    let config = with(&given, &files, &[]).unwrap();
    assert_eq!((ids(&config), config.naming), (vec!["server-memory"], Naming::Plain));

    let given = CommandLineOptions { config: Some("lockkeeper.toml".into()), ..given };
    assert_snapshot!(with(&given, &files, &[]).unwrap_err(), @r#"
    --config: both the command line and the file have servers
        remove one of them
    "#);

    let given = CommandLineOptions {
        single: Some(SingleServer::Url("https://docs.example.com/mcp".to_owned())),
        ..CommandLineOptions::default()
    };
    assert_eq!(ids(&with(&given, &[], &[]).unwrap()), ["docs-example-com"]);
    let given = CommandLineOptions {
        single: Some(SingleServer::Url("docs.example.com".to_owned())),
        ..CommandLineOptions::default()
    };
    assert_snapshot!(with(&given, &[], &[]).unwrap_err(), @"--url: this is not a URL: relative URL without a base");
}

#[test]
fn the_command_line_goes_before_variables_and_variables_before_the_file() {
    let files = [("lockkeeper.toml", "listen = \"127.0.0.1:1\"\npublic_url = \"https://file.example\"")];
    let variables = [("LOCKKEEPER_LISTEN", "127.0.0.1:2"), ("LOCKKEEPER_PUBLIC_URL", "https://variable.example")];
    let given = CommandLineOptions { listen: Some("127.0.0.1:3".to_owned()), ..CommandLineOptions::default() };
    let config = with(&given, &files, &variables).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.public_url(config.listen).as_str(), "https://variable.example");
    let config = with(&CommandLineOptions::default(), &files, &variables[1..]).unwrap();
    assert_eq!(config.listen.port(), 1);
}

#[test]
fn a_gateway_reachable_from_other_machines_needs_its_public_url() {
    let given = CommandLineOptions { listen: Some("0.0.0.0:8080".to_owned()), ..CommandLineOptions::default() };
    assert_snapshot!(with(&given, &[], &[]).unwrap_err(), @r#"
    public_url: this is required, because 0.0.0.0:8080 is reachable from other machines
        set the URL that clients use, such as `https://mcp.example.com`, as `public_url` in the file, `--public-url` or LOCKKEEPER_PUBLIC_URL; or listen on 127.0.0.1
    "#);
    // N-131
    for url in ["http://gw.example", "https://gw.example/", "https://gw.example#"] {
        let given = CommandLineOptions { public_url: Some(url.to_owned()), ..given.clone() };
        assert!(with(&given, &[], &[]).is_err(), "{url}");
    }
    let given = CommandLineOptions { public_url: Some("https://gw.example".to_owned()), ..given };
    assert!(with(&given, &[], &[]).is_ok());
}

#[test]
fn the_data_folder_is_found_despite_other_errors_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = "data_dir = \"kept\"\n[servers.a]\nenv = { KEY = \"${MISSING}\" }\n";
    std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
    let found =
        config::data_places(&CommandLineOptions::default(), &Environment::default(), folder.path()).unwrap().folder;
    assert_eq!(found, folder.path().join("kept"));
    let variables = [("LOCKKEEPER_DATA_DIR", "/elsewhere")].into_iter().collect();
    let found = config::data_places(&CommandLineOptions::default(), &variables, folder.path()).unwrap().folder;
    assert_eq!(found, std::path::Path::new("/elsewhere"));
}
