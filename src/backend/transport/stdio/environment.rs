//! The environment of a child process: variables of the gateway's that are on an allow list, and variables configured
//! for the child. The gateway's own secrets never reach it (design rule 14). Settings for proxies and package indexes,
//! which often contain credentials, reach it only if configured.

use std::collections::BTreeMap;

use crate::{
    model::{NESTING, nesting},
    support::Secret,
};

/// Variables that programs need to find themselves at home: the list of the MCP SDKs, with temporary files, time zone,
/// certificates, and the folders of version managers. docs/operations.md lists them.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NVM_DIR",
    "VOLTA_HOME",
    "PYENV_ROOT",
    "npm_config_cafile",
    "NPM_CONFIG_CAFILE",
    // Windows
    "APPDATA",
    "LOCALAPPDATA",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "USERPROFILE",
    "USERNAME",
    "TEMP",
    "TMP",
    "PATHEXT",
];

/// Prefixes of further such variables.
const PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Variables without which some programs do not start, for example to fetch packages or to reach a service on this
/// machine. They are not passed on by default.
const NEEDED: &[&str] = &[
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "DISPLAY",
    "DOCKER_HOST",
    "JAVA_HOME",
    "KUBECONFIG",
    "SSH_AUTH_SOCK",
];

/// Advice about a child that did not start: the gateway's environment has settings that were not passed on. `None` if
/// there are none.
pub(crate) fn advice(gateway: &BTreeMap<String, String>, configured: &BTreeMap<String, Secret>) -> Option<String> {
    let lacks = |name: &&&str| gateway.contains_key(**name) && !configured.contains_key(**name);
    let lacking: Vec<&str> = NEEDED.iter().filter(lacks).copied().collect();
    let first = lacking.first()?;
    Some(format!(
        "{} of the gateway's environment {} not passed on: if the program needs that to start, \
         add {first} = \"${{{first}}}\" to its `env`",
        lacking.join(", "),
        if lacking.len() == 1 { "is" } else { "are" }
    ))
}

/// The environment of a child: allowed variables of `gateway`, then the configured ones.
pub(crate) fn of_child(
    gateway: &BTreeMap<String, String>,
    configured: &BTreeMap<String, Secret>,
) -> BTreeMap<String, Secret> {
    let passes = |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let inherited = gateway.iter().filter(|(name, _)| passes(name));
    let mut environment: BTreeMap<String, Secret> =
        inherited.map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect();
    // without this, bash takes the socket on its standard input for a network login and reads `.bashrc`
    environment.insert("SHLVL".to_owned(), Secret::new("1"));
    // so that a gateway that starts itself does not do so forever
    let above = nesting(gateway.get(NESTING).map(String::as_str));
    environment.insert(NESTING.to_owned(), Secret::new(above.saturating_add(1).to_string()));
    environment.extend(configured.iter().map(|(name, value)| (name.clone(), value.clone())));
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_what_it_needs_and_no_secret_of_the_gateway() {
        let gateway = ["PATH", "LC_ALL", "XDG_CACHE_HOME", "LOCKKEEPER_SECRET", "AWS_SECRET_ACCESS_KEY"];
        let gateway = gateway.map(|name| (name.to_owned(), "inherited".to_owned())).into();
        let configured = ["PATH", "API_KEY"].map(|name| (name.to_owned(), Secret::new("configured"))).into();
        let child = of_child(&gateway, &configured);
        let seen: Vec<String> = child.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
        let expected = ["API_KEY=configured", "LC_ALL=inherited", "LOCKKEEPER_NESTING=1", "PATH=configured"];
        assert_eq!(seen, [&expected[..], &["SHLVL=1", "XDG_CACHE_HOME=inherited"]].concat());
    }

    #[test]
    fn proxies_and_package_indexes_reach_a_child_by_configuration_alone() {
        let value = "http://ann:secret@proxy.example";
        let gateway: BTreeMap<String, String> =
            NEEDED.iter().map(|name| ((*name).to_owned(), value.to_owned())).collect();
        assert_eq!(of_child(&gateway, &BTreeMap::new()).keys().collect::<Vec<_>>(), [NESTING, "SHLVL"]);
        let configured = [("HTTPS_PROXY".to_owned(), Secret::new(value))].into();
        let child = of_child(&gateway, &configured);
        assert_eq!(child.keys().collect::<Vec<_>>(), ["HTTPS_PROXY", NESTING, "SHLVL"]);
        let advice = advice(&[("HTTPS_PROXY".to_owned(), value.to_owned())].into(), &BTreeMap::new()).unwrap();
        assert!(advice.contains(r#"HTTPS_PROXY = "${HTTPS_PROXY}""#) && !advice.contains("secret"), "{advice}");
        assert_eq!(
            super::advice(&gateway, &gateway.keys().map(|name| (name.clone(), Secret::new(value))).collect()),
            None
        );
    }
}
