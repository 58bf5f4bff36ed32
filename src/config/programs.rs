//! The section `[programs]`, the gateway's places that programs cannot see, and secrets among the programs' arguments.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    configuration::Config,
    database::{DatabasePlace, MasterKeyPlace},
    expand::{ReferenceSources, expand},
    keys,
    section::Section,
    tree::{ConfigEntry, ConfigNode, ConfigValue, Document},
};
use crate::model::{
    BackendId, BackendSpec, CertificateSource, Contain, ProgramRules, TransportSpec, config_key::config_keys,
};
use crate::support::launcher::HiddenPlaces;

config_keys! {
    /// Rules for the programs of all servers.
    pub struct ProgramsConfig, taken at reload {
        /// How far programs are kept from the gateway's data, unless a server's own setting differs. `"keys"`: from the
        /// data folder, the configuration file, the secret files named in it, and the memory and environment of the
        /// gateway and of other servers, as far as this machine allows ([isolation of
        /// programs](isolation.md#programs)). `"off"`: from nothing.
        contain: Contain = choice("keys" => Contain::Keys, "off" => Contain::Off);
        /// With `true`, a program that cannot be fully contained does not start, and its state shows the reason.
        /// Otherwise it runs with the protections this machine offers, and `status` and `check` show what is missing.
        require_containment: bool = flag(false => false, true => true);
    }
}

/// Keys whose value is the path of a secret file.
const SECRET_FILES: [&str; 5] = ["env_file", "envFile", "key_file", "client_key_file", "master_key_file"];
/// The tables of servers.
const SERVERS: [&str; 2] = ["servers", "mcpServers"];
/// Words in the name of an option whose value is a secret.
const SECRET_WORDS: [&str; 8] = ["apikey", "api-key", "api_key", "token", "secret", "password", "passwd", "credential"];
/// Prefixes of secrets of well-known services.
const SECRET_BEGINNINGS: [&str; 9] =
    ["sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "Bearer "];

/// A secret file named in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretFile {
    /// The server whose section names it.
    server: Option<BackendId>,
    path: PathBuf,
}

impl ProgramsConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        keys::read(section, Self::KEYS, Self::default()).0
    }
}

/// The secret files named in a document.
pub(super) fn secret_files(document: &Document, sources: ReferenceSources<'_>) -> Vec<SecretFile> {
    let mut found = Vec::new();
    for entry in &document.root {
        match &entry.value.value {
            ConfigValue::Table(servers) if SERVERS.contains(&entry.key.as_str()) => {
                for server in servers {
                    collect(server, BackendId::normalise(&server.key).ok().as_ref(), sources, &mut found);
                }
            }
            _ => collect(entry, None, sources, &mut found),
        }
    }
    found
}

fn collect(
    entry: &ConfigEntry,
    server: Option<&BackendId>,
    sources: ReferenceSources<'_>,
    found: &mut Vec<SecretFile>,
) {
    let is_file = SECRET_FILES.contains(&entry.key.as_str());
    collect_node(&entry.value, is_file, server, sources, found);
}

fn collect_node(
    node: &ConfigNode,
    is_file: bool,
    server: Option<&BackendId>,
    sources: ReferenceSources<'_>,
    found: &mut Vec<SecretFile>,
) {
    let mut add = |file: &str| {
        found.push(SecretFile { server: server.cloned(), path: sources.folder.join(file) });
    };
    match &node.value {
        // a path that cannot be expanded is reported where it is read
        ConfigValue::Text(text) if is_file => {
            if let Ok(file) = expand(text, sources) {
                add(&file);
            }
        }
        ConfigValue::Text(text) => {
            for (file, _) in text.split("${file:").skip(1).filter_map(|rest| rest.split_once('}')) {
                add(file);
            }
        }
        ConfigValue::List(nodes) => {
            for node in nodes {
                collect_node(node, is_file, server, sources, found);
            }
        }
        ConfigValue::Table(entries) => {
            for entry in entries {
                collect(entry, server, sources, found);
            }
        }
        _ => {}
    }
}

/// Gives the programs of a configuration their rules. `folder` is the working directory.
pub(super) fn governed(mut config: Config, rules: &ProgramsConfig, secrets: &[SecretFile], folder: &Path) -> Config {
    let mut files: Vec<PathBuf> = config.source.file().map(|file| folder.join(file)).into_iter().collect();
    if let DatabasePlace::File(database) = &config.database {
        let beside = |ending: &str| {
            let mut name = database.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        files.extend([database.clone(), beside("-wal"), beside("-shm"), beside("-journal")]);
    }
    if let MasterKeyPlace::Named(key) = &config.master_key {
        files.push(key.clone());
    }
    if let Some(CertificateSource::Files(certificate)) = config.tls.as_ref().map(|tls| &tls.source) {
        files.push(certificate.key.clone());
    }
    files.retain(|file| !file.starts_with(&config.data_dir));
    for spec in config.backends.iter_mut().filter(|spec| spec.transport.starts_process()) {
        // it gets the content of its own files anyway
        let is_others = |secret: &&SecretFile| {
            secret.server.as_ref() != Some(&spec.id)
                && !secrets.iter().any(|other| other.server.as_ref() == Some(&spec.id) && other.path == secret.path)
        };
        let mut hidden: Vec<PathBuf> =
            files.iter().cloned().chain(secrets.iter().filter(is_others).map(|secret| secret.path.clone())).collect();
        hidden.sort();
        hidden.dedup();
        spec.programs = Arc::new(ProgramRules {
            contain: rules.contain,
            is_required: rules.require_containment,
            hidden: HiddenPlaces { folder: Some(config.data_dir.clone()), handed: Vec::new(), files: hidden },
        });
    }
    config
}

/// A sentence about a secret among the arguments of a program, which every process of this machine can read.
pub fn secret_argument(spec: &BackendSpec) -> Option<String> {
    let TransportSpec::Stdio(stdio) = &spec.transport else { return None };
    let of_user = spec
        .disclosure
        .as_ref()
        .is_some_and(|disclosure| disclosure.args.values().any(|argument| argument.secret_names().next().is_some()));
    if !of_user && !holds_secret(&stdio.args) {
        return None;
    }
    Some(format!(
        "the arguments of the server `{}` seem to contain a secret, and every program on this machine can read \
         arguments: put it into `env`, if the program takes it there",
        spec.id
    ))
}

fn holds_secret(args: &[String]) -> bool {
    let is_option = |argument: &str| {
        let name = argument.trim_start_matches('-').to_ascii_lowercase();
        argument.starts_with('-') && SECRET_WORDS.iter().any(|word| name.ends_with(word))
    };
    let has_password = |argument: &str| {
        let authority = argument.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
    };
    let values = args.iter().skip(1);
    let by_option = args.iter().zip(values).any(|(name, value)| is_option(name) && !value.starts_with('-'));
    by_option
        || args.iter().any(|argument| {
            let assigned = argument.split_once('=').is_some_and(|(name, value)| is_option(name) && !value.is_empty());
            let value = argument.split_once(['=', ' ']).map_or(argument.as_str(), |(_, value)| value);
            let begins = |text: &str| SECRET_BEGINNINGS.iter().any(|begin| text.starts_with(begin));
            assigned || has_password(argument) || begins(argument) || begins(value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_among_arguments_is_seen_and_no_other_argument() {
        let holds = |args: &[&str]| holds_secret(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        for args in [
            &["--api-key", "abc"][..],
            &["--token=abc"],
            &["postgres://ann:word@db/x"],
            &["--header", "Authorization: Bearer abc"],
            &["ghp_0123"],
            &["-e", "KEY=sk-abc"],
        ] {
            assert!(holds(args), "{args:?}");
        }
        for args in [
            &["-y", "@modelcontextprotocol/server-filesystem", "/data"][..],
            &["--token-file", "/run/secrets/token"],
            &["--password", "--verbose"],
            &["https://ann@example.com/x:y"],
            &["--keyboard=us"],
            &[],
        ] {
            assert!(!holds(args), "{args:?}");
        }
    }
}
