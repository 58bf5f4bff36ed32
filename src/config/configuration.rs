//! The checked configuration.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{
    clients::ClientsConfig, database::DatabasePlace, database::MasterKeyPlace, environment::Environment,
    http::HttpConfig, log::LogConfig, problem::ConfigProblem, public_url::PublicUrl, replica::ReplicaConfig,
    stdio::StdioConfig,
};
use crate::model::{AuthPolicy, BackendId, BackendSpec, Groups, LimitsConfig, LoginProvider, Naming, TlsSpec};

/// The default listen address.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

/// The file to read if none is named.
pub(super) const ADJACENT: &str = "lockkeeper.toml";

#[derive(Debug, Clone)]
pub struct Config {
    /// Listen address; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The URL of the gateway for clients; `None` only if `listen` is a loopback address: see [`Config::public_url`].
    pub public_url: Option<PublicUrl>,
    pub data_dir: PathBuf,
    /// The database: a file in the data folder, unless set otherwise.
    pub database: DatabasePlace,
    /// TLS toward clients; `None` if a proxy does that, or if there is no TLS.
    pub tls: Option<TlsSpec>,
    /// The key that encrypts secrets in the database.
    pub master_key: MasterKeyPlace,
    /// How the other replicas on the database reach this one; `None` without replicas.
    pub replica: Option<ReplicaConfig>,
    pub limits: LimitsConfig,
    pub auth: AuthPolicy,
    /// OpenID providers where people log in, as an alternative to the API key.
    pub login: Vec<LoginProvider>,
    /// HTTP access rules.
    pub http: HttpConfig,
    /// Rules for clients on standard input and output.
    pub stdio: StdioConfig,
    /// Settings for single clients.
    pub clients: ClientsConfig,
    pub log: LogConfig,
    /// The servers in configured order; never empty.
    pub backends: Vec<BackendSpec>,
    pub groups: Groups,
    /// The names of tools and prompts on the merged endpoint.
    pub naming: Naming,
    /// The environment of this process; children get an allow list of it.
    pub environment: Environment,
    /// The origin of the configuration.
    pub source: ConfigSource,
    /// The servers with changed names, by the file's names.
    pub renamed: Vec<(String, BackendId)>,
    /// Options of other programs that have no effect here.
    pub without_effect: Vec<ConfigProblem>,
    /// Notices about keys with a former name in the file.
    pub former_names: Vec<ConfigProblem>,
}

/// Source of the configuration. Displays as the end of the sentence "configuration: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// No configuration: the demonstration server.
    Demo,
    /// One server from the command line.
    CommandLine,
    /// A file named by `--config` or `LOCKKEEPER_CONFIG`.
    Named(PathBuf),
    /// `lockkeeper.toml` in the working directory.
    Adjacent(PathBuf),
    /// The usual file of the user or of the machine.
    Usual(PathBuf),
}

// === impl Config ===

impl Config {
    /// The URL for clients of a gateway that listens on `bound` (OA-137): the configured one, else the loopback
    /// address's.
    pub fn public_url(&self, bound: SocketAddr) -> PublicUrl {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.public_url.clone().unwrap_or_else(|| PublicUrl::loopback(scheme, bound))
    }

    /// A sentence for each server with a changed name.
    pub fn renamings(&self) -> impl Iterator<Item = String> {
        self.renamed.iter().map(|(name, id)| format!("the server `{name}` is called `{id}` here"))
    }

    /// A sentence for each option of another program that has no effect here, with its place.
    pub fn without_effect(&self) -> impl Iterator<Item = String> {
        self.without_effect.iter().map(|notice| match &notice.advice {
            Some(advice) => format!("{}: {}; {advice}", notice.place, notice.what),
            None => format!("{}: {}", notice.place, notice.what),
        })
    }

    /// A sentence for each former name of a key in the file, with its place.
    pub fn former_names(&self) -> impl Iterator<Item = String> {
        self.former_names.iter().map(|notice| format!("{}: {}", notice.place, notice.what))
    }

    /// A warning for a file with settings only.
    pub fn no_servers(&self) -> Option<String> {
        let advice = "no server is configured, so clients find no tools here. Add one: `lockkeeper add NAME COMMAND…`, \
                      or `lockkeeper add NAME URL`";
        self.backends.is_empty().then(|| advice.to_owned())
    }

    /// A warning for a missing `trusted_proxies` behind a proxy on this machine (OA-138).
    pub fn proxy_warning(&self) -> Option<String> {
        let https = self.public_url.as_ref().is_some_and(|url| url.as_str().starts_with("https://"));
        let untold = https
            && self.tls.is_none()
            && self.listen.ip().is_loopback()
            && self.http.trusted_proxies.networks().is_empty();
        untold.then(|| {
            "`public_url` is https and the gateway listens on a loopback address, so a proxy on this machine is in front; \
             without `trusted_proxies` every client has the proxy's address, and the limits on wrong keys and on \
             registrations count all clients as one. Let the proxy set X-Forwarded-For, and set \
             `trusted_proxies = [\"127.0.0.1\", \"::1\"]` in [http]"
                .to_owned()
        })
    }
}

// === impl ConfigSource ===

impl ConfigSource {
    /// The configuration file, relative to the working directory; for the demonstration, the file that would replace
    /// it; `None` for a server from the command line.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Named(file) | Self::Adjacent(file) | Self::Usual(file) => Some(file),
            Self::Demo => Some(Path::new(ADJACENT)),
            Self::CommandLine => None,
        }
    }
}

impl std::fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Demo => f.write_str("none, so the built-in demonstration server runs"),
            Self::CommandLine => f.write_str("one server from the command line"),
            Self::Named(path) | Self::Usual(path) => write!(f, "{}", path.display()),
            Self::Adjacent(path) => write!(f, "{} (found in the working directory)", path.display()),
        }
    }
}
