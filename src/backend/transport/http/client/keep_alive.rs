//! How long a connection of HTTP/1.1 may be idle before a request on it could meet its end: the server closes it, the
//! request is lost, and a call that may have run is not sent again.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

/// Field in which a server tells how long it keeps an idle connection (RFC 2068 19.7.1).
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Maximum idle time of a connection whose server tells none: less than the 5 s of common servers (uvicorn, Apache).
pub(super) const UNTOLD: Duration = Duration::from_secs(4);
/// Maximum idle time of any connection.
const MAX: Duration = Duration::from_secs(90);
/// Time before the end that a server tells in which nothing is sent: a busy one may read late, but closes in time.
const MARGIN: Duration = Duration::from_secs(2);

/// The time for which a connection may be idle, by the headers of a response on it. Zero if it is for one request.
pub(super) fn max_idle(headers: &HeaderMap) -> Duration {
    told_by(headers).map_or(UNTOLD, |told| told.saturating_sub(MARGIN).min(MAX))
}

/// The `timeout` of a server: `Keep-Alive: timeout=5, max=100`.
fn told_by(headers: &HeaderMap) -> Option<Duration> {
    let parameters = headers.get(KEEP_ALIVE)?.to_str().ok()?.split(',');
    parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(name, value)| {
        let seconds = name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse().ok())??;
        Some(Duration::from_secs(seconds))
    })
}
