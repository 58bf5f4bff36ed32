//! Check of outgoing HTTPS at the start, with only the hosts in the configuration. If a host cannot be reached, the log
//! and the status say what does not work without it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use url::Url;

use crate::{
    config::Config,
    fetch::{BodyBound, FetchRequest, OpenBounds, OpenClient},
    model::{CertificateSource, NetworkSpec, TransportSpec},
};

/// Timeout for one host.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of hosts checked at the same time.
const AT_ONCE: usize = 8;

/// The hosts to check, and the result.
#[derive(Debug)]
pub(super) struct OutgoingCheck {
    destinations: Vec<OutgoingHost>,
    environment: BTreeMap<String, String>,
    findings: Mutex<Vec<String>>,
}

/// A host, with the settings for reaching it, and what needs it.
#[derive(Debug)]
struct OutgoingHost {
    root: Url,
    network: Option<Arc<NetworkSpec>>,
    needed_by: Vec<String>,
}

// === impl OutgoingCheck ===

impl OutgoingCheck {
    /// Collects the hosts that the configuration reaches over HTTPS.
    pub(super) fn of(config: &Config) -> Self {
        let mut this =
            Self { destinations: Vec::new(), environment: config.environment.to_strings(), findings: Mutex::default() };
        for spec in &config.backends {
            let (TransportSpec::Http(http) | TransportSpec::Sse(http) | TransportSpec::WebSocket(http)) =
                &spec.transport
            else {
                continue;
            };
            this.add(&http.url, http.network.as_ref(), format!("the server `{}`", spec.id));
        }
        // behind a configured egress proxy, the proxy connects to providers
        for provider in config.login.iter().filter(|_| config.auth.egress.proxy.is_none()) {
            if let Ok(issuer) = Url::parse(&provider.issuer) {
                this.add(&issuer, None, format!("the login at `{}`", provider.name));
            }
        }
        if let Some(CertificateSource::Authority(authority)) = config.tls.as_ref().map(|tls| &tls.source)
            && let Ok(directory) = Url::parse(&authority.directory)
        {
            this.add(&directory, Some(&authority.network), "the gateway's own certificate".to_owned());
        }
        this
    }

    fn add(&mut self, url: &Url, network: Option<&Arc<NetworkSpec>>, needed_by: String) {
        let (Some(host), "https" | "wss") = (url.host_str(), url.scheme()) else { return };
        let port = url.port_or_known_default().unwrap_or(443);
        let Ok(root) = Url::parse(&format!("https://{host}:{port}/")) else { return };
        let same = |one: &&mut OutgoingHost| one.root == root && one.network.as_ref() == network;
        match self.destinations.iter_mut().find(same) {
            Some(known) => known.needed_by.push(needed_by),
            None => {
                self.destinations.push(OutgoingHost { root, network: network.cloned(), needed_by: vec![needed_by] });
            }
        }
    }

    /// Requests `/` from each host; any answer will do.
    pub(super) async fn run(&self) {
        let Ok(client) = OpenClient::new(&NetworkSpec::default(), &self.environment) else { return };
        let look = async |destination: &OutgoingHost| {
            let Some(reason) = destination.fault(&client).await else { return };
            let (host, needed_by) = (destination.name(), destination.needed_by.join(", "));
            tracing::warn!(host, "https to {host} fails: {reason}; without it this does not work: {needed_by}");
            self.findings.lock().push(format!("https to {host} failed at the start ({reason}): {needed_by}"));
        };
        stream::iter(&self.destinations).for_each_concurrent(AT_ONCE, look).await;
    }

    /// What does not work, for the status.
    pub(super) fn findings(&self) -> Vec<String> {
        self.findings.lock().clone()
    }
}

// === impl OutgoingHost ===

impl OutgoingHost {
    fn name(&self) -> String {
        let host = self.root.host_str().unwrap_or_default();
        self.root.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    async fn fault(&self, client: &OpenClient) -> Option<String> {
        let own = match &self.network {
            Some(network) => client.with_network(network),
            None => Ok(client.clone()),
        };
        let own = own.map_err(|error| error.to_string());
        let bounds = OpenBounds { deadline: TIMEOUT, body: BodyBound::Beginning(1) };
        match own {
            Ok(own) => own.send(FetchRequest::get(self.root.clone()), bounds).await.err().map(|error| error.reason()),
            Err(reason) => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, CommandLineOptions, Environment};

    fn check(text: &str) -> OutgoingCheck {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Some(folder.path().to_owned());
        let given = CommandLineOptions {
            config: Some("lockkeeper.toml".into()),
            draft: Some(text.to_owned()),
            data_dir,
            ..CommandLineOptions::default()
        };
        OutgoingCheck::of(&config::load(&given, &Environment::default(), folder.path()).unwrap())
    }

    #[test]
    fn only_hosts_that_the_configuration_names_are_asked_each_once() {
        let check = check(
            "[servers.a]\nurl = \"https://one.example/mcp?key=x\"\n[servers.b]\nurl = \"https://one.example/b\"\n\
             [servers.c]\nurl = \"http://127.0.0.1:1/mcp\"\n[servers.d]\ncommand = \"d\"\n",
        );
        let asked: Vec<_> =
            check.destinations.iter().map(|one| (one.root.as_str(), one.needed_by.join(", "))).collect();
        assert_eq!(asked, [("https://one.example/", "the server `a`, the server `b`".to_owned())]);
    }

    #[tokio::test]
    async fn a_host_that_is_not_reached_is_named_with_what_needs_it() {
        // nothing listens on port 1
        let check = check("[servers.a]\nurl = \"https://127.0.0.1:1/mcp\"\n");
        check.run().await;
        let findings = check.findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("https to 127.0.0.1:1 failed at the start ("), "{findings:?}");
        assert!(findings[0].ends_with("): the server `a`"), "{findings:?}");
    }
}
