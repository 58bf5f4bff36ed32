//! Checks whether a client that runs at its vendor can reach a deployment.

use std::time::Duration;

use tokio::{net::lookup_host, time::timeout};
use url::{Host, Url};

use super::finding::Finding;
use crate::fetch::address::{is_fake, is_public};

/// Maximum time to look up the name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Problems that keep such clients from the server.
pub(super) async fn problems(server: &Url) -> Vec<Finding> {
    let mut found = of_url(server);
    if found.is_empty() {
        found.extend(of_name(server).await);
    }
    found
}

fn of_url(server: &Url) -> Vec<Finding> {
    let (at, mut found) = (server.as_str(), Vec::new());
    if server.scheme() != "https" {
        let problem = "it is not https; the client runs at its vendor";
        found.push(Finding::blocks(
            at,
            problem,
            "serve it over https (`lockkeeper serve --domain NAME`, or a TLS proxy)",
        ));
    }
    if server.port_or_known_default() != Some(443) && server.scheme() == "https" {
        let problem = "the port is not 443, the only one that the client's network opens";
        found.push(Finding::may_fail(at, problem, "use port 443"));
    }
    let is_private = match server.host() {
        Some(Host::Domain(name)) => {
            matches!(name.rsplit_once('.'), None | Some((_, "localhost" | "local" | "internal")))
        }
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        None => true,
    };
    if is_private {
        let problem = "the host is not public; the client connects from its vendor's network";
        found.push(Finding::blocks(at, problem, "use a name with a public address"));
    }
    found
}

/// The finding for a name that has no public address here. Elsewhere it may have another one.
async fn of_name(server: &Url) -> Option<Finding> {
    let Some(Host::Domain(name)) = server.host() else { return None };
    let lookup = lookup_host((name, server.port_or_known_default()?));
    let addresses: Vec<_> = timeout(LOOKUP_TIMEOUT, lookup).await.ok()?.ok()?.map(|found| found.ip()).collect();
    let seen = addresses.first().filter(|_| addresses.iter().all(|one| !is_public(*one) && !is_fake(*one)))?;
    let problem = format!("{name} is {seen} here, which is not public; the client connects from its vendor's network");
    let advice = "make sure that the name has a public address for others, and run this from outside your network";
    Some(Finding::may_fail(server.as_str(), problem, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_020_hosted_clients_need_a_public_address_and_port_443() {
        let problems = |url: &str| of_url(&Url::parse(url).unwrap()).len();
        assert_eq!(problems("https://gw.example/mcp"), 0);
        assert_eq!(problems("https://gw.example:8443/mcp"), 1);
        assert_eq!(problems("https://10.0.0.1/mcp"), 1);
        assert_eq!(problems("https://100.64.0.1/mcp"), 1);
        assert_eq!(problems("http://localhost:8080/mcp"), 2);
    }
}
