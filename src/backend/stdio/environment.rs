//! What a child process sees of the gateway's environment: names on an allow list, and what was configured for it. The
//! gateway's own secrets never reach it (design rule 14).

use std::collections::BTreeMap;

use crate::support::Secret;

/// Variables that programs need to find themselves at home: the list of the MCP SDKs, with temporary files, time zone,
/// certificates and the proxies without which `npx` and `uvx` fetch nothing in many a company.
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
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "NVM_DIR",
    "VOLTA_HOME",
    "PYENV_ROOT",
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
    "npm_config_cafile",
    "NPM_CONFIG_CAFILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
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

/// Families of such variables.
const PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The environment of a child: what is let through of `gateway`, then what was configured.
pub(crate) fn of_child(
    gateway: &BTreeMap<String, String>,
    configured: &BTreeMap<String, Secret>,
) -> BTreeMap<String, Secret> {
    let passes = |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let inherited = gateway.iter().filter(|(name, _)| passes(name));
    let mut environment: BTreeMap<String, Secret> =
        inherited.map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect();
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
        assert_eq!(seen, ["API_KEY=configured", "LC_ALL=inherited", "PATH=configured", "XDG_CACHE_HOME=inherited"]);
    }
}
