//! How many requests strangers can have the gateway make (N-44). Knows nothing of the requests.

use std::{net::IpAddr, time::Duration};

use crate::{
    model::ClientIp,
    support::{Timestamp, limits::Buckets},
};

/// Requests by who caused them, and by the host that gets them: the gateway must not tire itself, nor be a means to
/// tire others. It is charged before a request, also before one that then fails.
#[derive(Debug)]
pub struct FetchBudget {
    sources: Buckets<IpAddr>,
    hosts: Buckets<String>,
}

impl Default for FetchBudget {
    /// One network may cause 30 requests at once, then 6 a minute: hosted clients share networks. One host gets 60 at
    /// once, then one a second.
    fn default() -> Self {
        Self { sources: Buckets::new(30, Duration::from_secs(10)), hosts: Buckets::new(60, Duration::from_secs(1)) }
    }
}

impl FetchBudget {
    /// Charges a request to `host`, and to the stranger who caused it, if one did.
    ///
    /// # Errors
    ///
    /// The time until such a request is possible; then nothing is charged.
    pub fn take(&self, source: Option<ClientIp>, host: &str, now: Timestamp) -> Result<(), Duration> {
        let source = source.map(ClientIp::network);
        if let Some(source) = source {
            self.sources.take(source, now)?;
        }
        let charged = self.hosts.take(host.to_ascii_lowercase(), now);
        charged.inspect_err(|_| source.iter().for_each(|source| self.sources.give_back(source, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_and_a_host_run_empty_each_by_itself() {
        let (budget, now) = (FetchBudget::default(), Timestamp::from_seconds(1_000_000));
        let from = |last: u8| Some(ClientIp(IpAddr::from([192, 0, 2, last])));
        for number in 0..30 {
            assert_eq!(budget.take(from(1), &format!("{number}.example"), now), Ok(()));
        }
        assert_eq!(budget.take(from(1), "30.example", now), Err(Duration::from_secs(10)));
        for source in 2..62 {
            assert_eq!(budget.take(from(source), "a.example", now), Ok(()));
        }
        assert_eq!(budget.take(from(62), "A.example", now), Err(Duration::from_secs(1)));
    }
}
