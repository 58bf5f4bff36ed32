//! Precedence of the sources of the configuration.

use insta::assert_snapshot;
use lockkeeper::{
    config::{
        self, CommandLineOptions, Config, ConfigProblems, ConfigSource, Environment, MasterKeyPlace, SingleServer,
    },
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
fn a_file_without_servers_has_none_and_no_demonstration() {
    for text in ["", "[log]\nformat = \"json\"", "[servers]", "[servers.a]\ncommand = \"a\"\ndisabled = true"] {
        let config = with(&CommandLineOptions::default(), &[("lockkeeper.toml", text)], &[]).unwrap();
        assert_eq!(ids(&config), [""; 0], "{text}");
        assert!(config.no_servers().is_some_and(|warning| warning.contains("`lockkeeper add")), "{text}");
    }
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
fn trusted_proxies_and_the_database_have_variables_that_go_before_the_file() {
    let text = "database = \"sqlite:file.sqlite3\"\n[http]\ntrusted_proxies = [\"10.0.0.1\"]";
    let files = [("lockkeeper.toml", text)];
    let given = CommandLineOptions::default();
    let networks = |config: &Config| config.http.trusted_proxies.networks().len();
    let config = with(&given, &files, &[]).unwrap();
    assert_eq!((networks(&config), config.http.trusted_proxies.trusts_private()), (1, false));
    let variables = [
        ("LOCKKEEPER_TRUSTED_PROXIES", "private, 192.0.2.0/24"),
        ("LOCKKEEPER_DATABASE", "postgres://lockkeeper@db.example/variable"),
    ];
    let config = with(&given, &files, &variables).unwrap();
    assert!(config.http.trusted_proxies.trusts_private() && networks(&config) > 1);
    assert_eq!(config.database.to_string(), "db.example/variable");
    assert_eq!(networks(&with(&given, &files, &[("LOCKKEEPER_TRUSTED_PROXIES", "")]).unwrap()), 1, "empty is not set");
    assert_snapshot!(with(&given, &[], &[("LOCKKEEPER_TRUSTED_PROXIES", "proxy.example")]).unwrap_err(), @"LOCKKEEPER_TRUSTED_PROXIES: this is neither a network such as `10.0.0.0/8`, nor an address, nor `private`");
}

#[test]
fn private_proxies_are_written_alone_or_in_a_list() {
    for text in ["\"private\"", "[\"private\"]", "[\"203.0.113.0/24\", \"private\"]"] {
        let files = [("lockkeeper.toml", &*format!("[http]\ntrusted_proxies = {text}"))];
        let config = with(&CommandLineOptions::default(), &files, &[]).unwrap();
        assert!(config.http.trusted_proxies.trusts_private(), "{text}");
    }
    let files = [("lockkeeper.toml", "[http]\ntrusted_proxies = 7")];
    assert!(with(&CommandLineOptions::default(), &files, &[]).is_err());
}

#[test]
fn the_port_of_a_platform_counts_beside_the_public_url_alone() {
    let url = ("LOCKKEEPER_PUBLIC_URL", "https://mcp.example.com");
    let nothing = CommandLineOptions::default();
    let listen = |given: &CommandLineOptions, file: &str, variables: &[(&str, &str)]| {
        let files = [("lockkeeper.toml", file)];
        with(given, &files, variables).map(|config| config.listen.to_string()).map_err(|error| error.to_string())
    };
    let at = |address: &str| Ok(address.to_owned());
    assert_eq!(listen(&nothing, "", &[url, ("PORT", "10000")]), at("0.0.0.0:10000"));
    assert_eq!(listen(&nothing, "", &[url, ("PORT", "10000"), ("LOCKKEEPER_LISTEN", "")]), at("0.0.0.0:10000"));
    // without the variable of the gateway it is another program's
    assert_eq!(listen(&nothing, "", &[("PORT", "10000")]), at("127.0.0.1:8080"));
    assert_eq!(
        listen(&nothing, "public_url = \"https://mcp.example.com\"", &[("PORT", "10000")]),
        at("127.0.0.1:8080")
    );
    assert_eq!(listen(&nothing, "", &[("LOCKKEEPER_PUBLIC_URL", ""), ("PORT", "10000")]), at("127.0.0.1:8080"));
    // whoever says where to listen goes before
    assert_eq!(listen(&nothing, "listen = 7000", &[url, ("PORT", "10000")]), at("127.0.0.1:7000"));
    assert_eq!(listen(&nothing, "listen = \"7000\"", &[url, ("PORT", "10000")]), at("127.0.0.1:7000"));
    let variables = [url, ("PORT", "10000"), ("LOCKKEEPER_LISTEN", "[::]:7001")];
    assert_eq!(listen(&nothing, "", &variables), at("[::]:7001"));
    let given = CommandLineOptions { listen: Some("7002".to_owned()), ..CommandLineOptions::default() };
    assert_eq!(listen(&given, "", &[url, ("PORT", "10000")]), at("127.0.0.1:7002"));
    let given = CommandLineOptions { inherited: Some(([127, 0, 0, 1], 7003).into()), ..CommandLineOptions::default() };
    assert_eq!(listen(&given, "", &[url, ("PORT", "10000")]), at("127.0.0.1:7003"));
    // Kubernetes sets this one for a service of that name
    assert_eq!(listen(&nothing, "", &[url, ("LOCKKEEPER_PORT", "tcp://10.0.0.1:8080")]), at("127.0.0.1:8080"));
    for wrong in ["0", "70000", "tcp://10.0.0.1:8080"] {
        let error = listen(&nothing, "", &[url, ("PORT", wrong)]).unwrap_err();
        assert_eq!(error, "PORT: this must be a port; to ignore it, set LOCKKEEPER_LISTEN or `listen`");
    }
}

#[test]
fn the_master_key_is_in_the_data_folder_unless_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lockkeeper.toml"), "master_key_file = \"secrets/key\"").unwrap();
    let named = |given: &CommandLineOptions, variables: &[(&str, &str)]| {
        let variables = variables.iter().copied().collect();
        let given = CommandLineOptions { data_dir: Some("/data".into()), ..given.clone() };
        let places = config::data_places(&given, &variables, folder.path()).unwrap();
        assert_eq!(config::load(&given, &variables, folder.path()).unwrap().master_key, places.master_key);
        places.master_key
    };
    let given = CommandLineOptions::default();
    assert_eq!(named(&given, &[]), MasterKeyPlace::Named(folder.path().join("secrets/key")));
    let variable = ("LOCKKEEPER_MASTER_KEY_FILE", "/run/secrets/master_key");
    assert_eq!(named(&given, &[variable]), MasterKeyPlace::Named("/run/secrets/master_key".into()));
    std::fs::remove_file(folder.path().join("lockkeeper.toml")).unwrap();
    assert_eq!(named(&given, &[]), MasterKeyPlace::InFolder("/data/master.key".into()));
}

#[test]
fn a_public_url_in_quotes_or_without_a_scheme_is_shown_with_the_right_form() {
    let given = CommandLineOptions::default();
    let variables = [("LOCKKEEPER_PUBLIC_URL", "\"https://mcp.example.com\"")];
    assert_snapshot!(with(&given, &[], &variables).unwrap_err(), @r#"LOCKKEEPER_PUBLIC_URL: `"https://mcp.example.com"` is in quotes, which are a part of the value here; write `https://mcp.example.com`"#);
    let files = [("lockkeeper.toml", "public_url = \"mcp.example.com\"")];
    assert_snapshot!(with(&given, &files, &[]).unwrap_err(), @"lockkeeper.toml:1:14: public_url: `mcp.example.com` is without a scheme; write `https://mcp.example.com`");
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
