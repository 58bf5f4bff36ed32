//! Everything that the operator says, checked. Knows nothing of how it is read.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use super::{clients::Clients, environment::Environment, http::Http, limits::Limits, log::Log, public_url::PublicUrl};
use crate::model::{AuthPolicy, BackendSpec, Naming};

/// The address that is listened on where nothing is said.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

/// Everything that the operator says, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address and port that are listened on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The URL under which clients reach the gateway; `None` only where `listen` is a loopback address: see
    /// [`Config::public_url`].
    pub public_url: Option<PublicUrl>,
    /// The folder of the database and of everything else that is kept.
    pub data_dir: PathBuf,
    /// Bounds.
    pub limits: Limits,
    /// The authorization server.
    pub auth: AuthPolicy,
    /// What is let in by the HTTP layers.
    pub http: Http,
    /// How single clients want to be spoken to.
    pub clients: Clients,
    /// Logs.
    pub log: Log,
    /// The backends in configured order; never empty.
    pub backends: Vec<BackendSpec>,
    /// The names of tools and prompts on the merged endpoint.
    pub naming: Naming,
    /// The environment of this process, from which children get an allow list.
    pub environment: Environment,
    /// The origin of the configuration.
    pub source: Source,
}

/// Where the configuration comes from. Displays as the end of the sentence "configuration: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nothing is configured: the demonstration backend.
    Demo,
    /// One backend from the command line.
    CommandLine,
    /// A file that was named.
    Named(PathBuf),
    /// `lockkeeper.toml` in the working directory.
    Adjacent(PathBuf),
}

// === impl Config ===

impl Config {
    /// The URL under which clients reach the gateway that listens on `bound` (OA-137): the configured one, else
    /// `http://` and the loopback address.
    pub fn public_url(&self, bound: SocketAddr) -> PublicUrl {
        self.public_url.clone().unwrap_or_else(|| PublicUrl::loopback(bound))
    }

    /// A warning where a proxy on this machine must be in front and its forwarding headers are not believed (OA-138).
    pub fn proxy_warning(&self) -> Option<String> {
        let https = self.public_url.as_ref().is_some_and(|url| url.as_str().starts_with("https://"));
        let untold = https && self.listen.ip().is_loopback() && self.http.trusted_proxies.is_empty();
        untold.then(|| {
            "`public_url` is https and the gateway listens on a loopback address, so a proxy on this machine is in front; \
             without `trusted_proxies` every client has the proxy's address, and the limits on wrong keys and on \
             registrations count all clients as one. Have the proxy set X-Forwarded-For, and write \
             `trusted_proxies = [\"127.0.0.1\", \"::1\"]` in [http]"
                .to_owned()
        })
    }
}

// === impl Source ===

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Demo => f.write_str("none, so the built-in demonstration backend is offered"),
            Self::CommandLine => f.write_str("one backend from the command line"),
            Self::Named(path) => write!(f, "{}", path.display()),
            Self::Adjacent(path) => write!(f, "{} (found in the working directory)", path.display()),
        }
    }
}
