//! Snippets of the README and the pages: the parser accepts the configuration, and JSON is valid.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::load;

/// Pages with snippets for setup.
const PAGES: [&str; 4] = ["README.md", "docs/behind.md", "docs/clients.md", "docs/deployment.md"];
/// Most words of the README; further text belongs into `docs/`.
const README_WORDS: usize = 1100;

#[test]
fn the_configuration_of_the_readme_is_valid() {
    for page in ["README.md", "docs/deployment.md"] {
        let text = read(page);
        let snippets = blocks(&text, "toml");
        assert!(!snippets.is_empty(), "{page} has none");
        for snippet in snippets {
            let loaded = load("lockkeeper.toml", snippet, &[("DOCS_TOKEN", "t")]);
            assert!(loaded.is_ok(), "{page}: {}\n{snippet}", loaded.unwrap_err());
        }
    }
}

#[test]
fn the_configuration_behind_a_proxy_is_valid_as_it_is_and_for_compose() {
    let text = read("deploy/lockkeeper.toml");
    let config = load("lockkeeper.toml", &text, &[]).unwrap();
    assert_eq!(config.proxy_warning(), None);
    let variables = [("LOCKKEEPER_HOST", "gateway.example.org"), ("LOCKKEEPER_PROXY", "172.31.85.0/24")];
    let config = load("lockkeeper.toml", &text, &variables).unwrap();
    assert_eq!(config.public_url.unwrap().as_str(), "https://gateway.example.org");
    assert!(read("deploy/compose.yaml").contains("LOCKKEEPER_PROXY: 172.31.85.0/24"));
}

#[test]
fn the_configurations_of_replicas_are_valid() {
    let variables = [
        ("LOCKKEEPER_DATABASE", "postgres://lockkeeper@db.example/lockkeeper"),
        ("LOCKKEEPER_REPLICA", "lockkeeper-2"),
        ("POD_IP", "10.1.2.3"),
    ];
    for file in ["deploy/lockkeeper.replicas.toml", "deploy/kubernetes/lockkeeper.toml"] {
        let config = load("lockkeeper.toml", &read(file), &variables).unwrap();
        assert!(config.replica.is_some(), "{file}");
        assert_eq!(config.proxy_warning(), None, "{file}");
        // the orchestrator ends by force after 60 s
        assert!((config.limits.shutdown_delay + config.limits.shutdown).as_secs() <= 45, "{file}");
    }
    assert!(read("deploy/compose.replicas.yaml").contains("stop_grace_period: 60s"));
    assert!(read("deploy/kubernetes/statefulset.yaml").contains("terminationGracePeriodSeconds: 60"));
}

#[test]
fn every_snippet_of_json_is_json() {
    for page in PAGES {
        let text = read(page);
        for snippet in blocks(&text, "json") {
            let parsed = serde_json::from_str::<Value>(snippet);
            assert!(parsed.is_ok(), "{page}: {}\n{snippet}", parsed.unwrap_err());
        }
    }
}

#[test]
fn every_path_that_a_shared_host_must_forward_is_on_the_page() {
    let page = read("docs/deployment.md");
    let listed = page.split("has to forward these paths").nth(1).unwrap().split("A **path prefix**").next().unwrap();
    let mut missing = Vec::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(file).unwrap();
        let routes = text.split(".route(\"/").skip(1).filter_map(|rest| rest.split('"').next());
        for first in routes.map(|route| route.split('/').next().unwrap_or_default()) {
            // metrics and the status are for administrators
            let is_private = ["metrics", "api"].contains(&first);
            if !is_private && !listed.contains(&format!("`/{first}`")) && !listed.contains(&format!("`/{first}/`")) {
                missing.push(first.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// The source files below a folder, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_of_tests = |path: &PathBuf| path.to_string_lossy().contains("tests");
    let entries = entries.filter(|path| !is_of_tests(path));
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn the_readme_is_short() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= README_WORDS, "{words} words");
}

/// The code blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    page.split(opening.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}
