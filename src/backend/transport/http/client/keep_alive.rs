//! How long an HTTP/1.1 connection may stay idle before it is no longer used. If the server closes it just when a
//! request is sent, the request is lost, and a call that may have run is not sent again.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::framing;

/// Header in which a server says how long it keeps an idle connection (RFC 2068 19.7.1).
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Maximum idle time if the server does not say: less than the 2 s of gunicorn.
const UNTOLD: Duration = Duration::from_secs(1);
/// The same with TLS, where a new connection costs more: less than the 5 s of uvicorn.
pub(super) const UNTOLD_SECURE: Duration = Duration::from_secs(3);
/// Maximum idle time in any case: less than the minute of common load balancers.
pub(super) const MAX: Duration = Duration::from_secs(55);
/// How long before the announced end the gateway stops using a connection: a busy server reads late, but its timer does
/// not wait.
const MARGIN: Duration = Duration::from_secs(2);

/// Maximum idle time of a plain connection, by the headers of the last response on it.
pub(super) fn max_idle(headers: &HeaderMap) -> Duration {
    match told_by(headers) {
        _ if framing::is_ambiguous(headers) => Duration::ZERO,
        None => UNTOLD,
        // a proxy may have passed on the header of its own server (RFC 2068 19.7.1.1)
        Some(told) if !has_connection_token(headers) => told.min(UNTOLD),
        Some(told) => told.min(MAX),
    }
}

/// True if a TLS connection may be idle for [`UNTOLD_SECURE`]: their pool has one idle time for all servers.
pub(super) fn is_kept(headers: &HeaderMap) -> bool {
    !framing::is_ambiguous(headers) && told_by(headers).is_none_or(|told| told >= UNTOLD_SECURE)
}

/// The time that a server announces, less [`MARGIN`]: `Keep-Alive: timeout=5, max=100`.
fn told_by(headers: &HeaderMap) -> Option<Duration> {
    let parameters = headers.get_all(KEEP_ALIVE).into_iter().flat_map(elements);
    let timeout = parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(name, value)| {
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().trim_matches('"').parse().ok())?
    })?;
    Some(Duration::from_secs(timeout).saturating_sub(MARGIN))
}

fn has_connection_token(headers: &HeaderMap) -> bool {
    let mut tokens = headers.get_all(header::CONNECTION).into_iter().flat_map(elements);
    tokens.any(|token| token.trim().eq_ignore_ascii_case("keep-alive"))
}

fn elements(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',')
}
