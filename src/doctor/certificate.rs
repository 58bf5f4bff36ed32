//! Checks whether the certificate of a deployment expires soon. If clients refuse the certificate, the examination
//! never gets here.

use std::time::Duration;

use tokio::time::timeout;
use url::Url;

use super::finding::Finding;
use crate::{
    fetch::tls::certificate_end,
    support::{Clock as _, SystemClock, Timestamp},
};

/// Maximum time to get the certificate.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// A certificate should be renewed before it has this little time left.
const SOON: Duration = Duration::from_hours(7 * 24);

/// The finding for a certificate that expires soon.
pub(super) async fn ends_soon(server: &Url) -> Option<Finding> {
    let host = server.host_str().filter(|_| server.scheme() == "https")?;
    let end = timeout(LOOK_TIMEOUT, certificate_end(host, server.port_or_known_default()?)).await.ok()?.ok()?;
    finding(server, end, SystemClock.now())
}

fn finding(server: &Url, end: Timestamp, now: Timestamp) -> Option<Finding> {
    let left = end.since(now);
    let problem =
        format!("its certificate ends at {end}, in {} hours, and is still the old one", left.as_secs() / 3600);
    let advice = "see why it is not renewed: `lockkeeper status` of the gateway, or the log of the program that renews \
                  it";
    (left < SOON).then(|| Finding::may_fail(server.as_str(), problem, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_within_a_week_is_told_of() {
        let server = Url::parse("https://mcp.example.com/mcp").unwrap();
        let days = |days: i64| Timestamp::from_seconds(days * 86_400);
        assert!(finding(&server, days(30), days(10)).is_none());
        assert!(finding(&server, days(30), days(28)).unwrap().problem.contains("in 48 hours"));
    }
}
