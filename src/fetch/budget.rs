//! How many requests strangers can have the gateway make (N-44).

use std::{net::IpAddr, time::Duration};

use url::Url;

use crate::{
    model::ClientIp,
    support::{Timestamp, limits::Buckets},
};

/// Requests by cause, and by the host that gets them: the gateway must neither tire itself nor be used to tire others.
/// Each request is charged beforehand, even if it then fails.
///
/// Known documents have buckets of their own: strangers who name others of the same host cannot empty them.
#[derive(Debug)]
pub struct FetchBudget {
    known: Buckets<Url>,
    networks: Buckets<IpAddr>,
    hosts: Buckets<String>,
}

/// A limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimit {
    /// The time until such a request is possible.
    pub wait: Duration,
    /// The basis of the count.
    pub by: LimitedBy,
}

/// The basis for counting requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// The network of the stranger who causes them.
    Network,
    /// The host that gets them.
    Host,
}

impl Default for FetchBudget {
    /// One network may cause 30 requests at once, then 6 a minute: hosted clients share networks. One host gets 600 at
    /// once, then 10 a second: so few networks cannot exhaust it. A known document may be requested 10 times at once,
    /// then 6 times a minute.
    fn default() -> Self {
        Self {
            known: Buckets::new(10, Duration::from_secs(10)),
            networks: Buckets::new(30, Duration::from_secs(10)),
            hosts: Buckets::new(600, Duration::from_millis(100)),
        }
    }
}

impl FetchBudget {
    /// Charges a request for a document that was valid before, or whose client has a consent.
    ///
    /// # Errors
    ///
    /// The limit that it would exceed; then nothing is charged.
    pub fn take_known(&self, url: &Url, now: Timestamp) -> Result<(), FetchLimit> {
        self.known.take(url.clone(), now).map_err(|wait| FetchLimit { wait, by: LimitedBy::Host })
    }

    /// Charges a request for any other document to the stranger who caused it, and to its host.
    ///
    /// # Errors
    ///
    /// The limit that it would exceed; then nothing is charged.
    pub fn take_unknown(&self, source: ClientIp, url: &Url, now: Timestamp) -> Result<(), FetchLimit> {
        let (network, host) = (source.network(), url.host_str().unwrap_or_default().to_ascii_lowercase());
        let limit = |by| move |wait| FetchLimit { wait, by };
        self.networks.take(network, now).map_err(limit(LimitedBy::Network))?;
        let charged = self.hosts.take(host, now).map_err(limit(LimitedBy::Host));
        charged.inspect_err(|_| self.networks.give_back(&network, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn from(network: u16) -> ClientIp {
        let [high, low] = network.to_be_bytes();
        ClientIp(IpAddr::from([192, 0, high, low]))
    }

    fn url(host: &str) -> Url {
        Url::parse(&format!("https://{host}/client.json")).unwrap()
    }

    #[test]
    fn a_network_runs_empty_by_itself() {
        let budget = FetchBudget::default();
        for number in 0..30 {
            assert_eq!(budget.take_unknown(from(1), &url(&format!("{number}.example")), NOW), Ok(()));
        }
        let limit = FetchLimit { wait: Duration::from_secs(10), by: LimitedBy::Network };
        assert_eq!(budget.take_unknown(from(1), &url("30.example"), NOW), Err(limit));
        assert_eq!(budget.take_unknown(from(2), &url("a.example"), NOW), Ok(()));
    }

    #[test]
    fn strangers_who_exhaust_a_host_leave_its_known_documents_alone() {
        let budget = FetchBudget::default();
        let limited = (1..100).flat_map(|network| [network; 30]).find_map(|network| {
            budget.take_unknown(from(network), &url("a.example"), NOW).err().map(|limit| (network, limit))
        });
        // twenty networks, not two
        assert_eq!(limited, Some((21, FetchLimit { wait: Duration::from_millis(100), by: LimitedBy::Host })));
        for _ in 0..10 {
            assert_eq!(budget.take_known(&url("a.example"), NOW), Ok(()));
        }
        assert!(budget.take_known(&url("a.example"), NOW).is_err());
        assert_eq!(budget.take_known(&url("b.example"), NOW), Ok(()));
    }
}
