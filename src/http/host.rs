//! Accepted host names (`OA-138`). A page that rebinds its own name to this address still sends its own name as `Host`.
//! Ports are ignored, because they do not distinguish sites here.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use http::{StatusCode, Version, header, uri::Authority};

use super::{
    guard_settings::{Bound, GuardSettings},
    refusal::EarlyRefusal,
};
use crate::{
    listener::ConnectionPlace,
    model::{AllowedSites, policy},
    support::{Live, printable, printable_name},
};

/// Probes of orchestrators come under any name: a container's, a service's or `localhost`. Their answers reveal nothing
/// to a page with a rebound name.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The path whose `Host` may also be an address, but not an unknown name.
const METRICS: &str = "/metrics";

/// Longest name of a host (RFC 1035 2.3.4).
const MAX_NAME: usize = 253;

/// The names of the gateway.
#[derive(Debug)]
pub(super) struct Hosts {
    own: Vec<String>,
    sites: Live<AllowedSites>,
    /// True once a probe under an unknown name was logged. One line is enough, because probes come every few seconds.
    has_logged_probe: AtomicBool,
}

impl Hosts {
    /// The host of the public URL, the configured ones, and the loopback names if the gateway is bound to loopback.
    pub(super) fn new(settings: &GuardSettings) -> Self {
        let mut own: Vec<String> = settings.public_url.host_str().map(str::to_owned).into_iter().collect();
        if settings.bound == Bound::Loopback {
            own.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self { own, sites: settings.sites.clone(), has_logged_probe: AtomicBool::new(false) }
    }

    /// Refuses an unknown host with 421, and a missing or ambiguous one with 400 (RFC 9112 3.2). HTTP/1.0 without
    /// `Host` passes: browsers never send it, so it does not come from a rebound name.
    pub(super) fn check(&self, request: &Request) -> Result<(), EarlyRefusal> {
        if self.is_plainly_known(request) {
            return Ok(());
        }
        let host = Self::named(request).map_err(|reason| {
            EarlyRefusal::new(StatusCode::BAD_REQUEST, "invalid_request", format!("{reason} (RFC 9112, section 3.2)."))
        })?;
        let Some(host) = host else { return Ok(()) };
        let (name, _) = split(host.as_bytes());
        let path = request.uri().path();
        if self.knows(name) || path == METRICS && (is_address(name) || is_of_this_machine(request)) {
            return Ok(());
        }
        if PROBES.contains(&path) {
            if !is_address(name) && !self.has_logged_probe.swap(true, Ordering::Relaxed) {
                let host = printable_name(host, MAX_NAME);
                tracing::info!(%host, "answered a probe by a name that is not this gateway's: other requests by it get 421");
            }
            return Ok(());
        }
        Err(EarlyRefusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", unknown(name)))
    }

    /// True for a single `Host` header with an accepted name, with or without a port. Then no other check is needed.
    fn is_plainly_known(&self, request: &Request) -> bool {
        let mut headers = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (headers.next(), headers.next()) else { return false };
        let (name, port) = split(host.as_bytes());
        request.uri().authority().is_none() && port.iter().all(u8::is_ascii_digit) && self.knows(name)
    }

    /// The host and port that the request names; `None` if it may omit them. An absolute target takes precedence over
    /// the header (RFC 9112 3.2.2, RFC 9113 8.3.1).
    fn named(request: &Request) -> Result<Option<&str>, &'static str> {
        let mut headers = request.headers().get_all(header::HOST).iter();
        let (first, second) = (headers.next(), headers.next());
        if second.is_some() {
            return Err("The request has more than one Host header");
        }
        let header = match first.map(|host| host.to_str()) {
            Some(Ok(host)) if is_host(host) => Some(host),
            Some(_) => return Err("The Host header names no host"),
            None if request.version() == Version::HTTP_11 => return Err("The request has no Host header"),
            None => None,
        };
        Ok(request.uri().authority().map(Authority::as_str).or(header))
    }

    fn knows(&self, name: &[u8]) -> bool {
        let is_it = |known: &String| known.as_bytes().eq_ignore_ascii_case(name);
        self.own.iter().any(is_it) || self.sites.get().hosts.iter().any(is_it)
    }
}

/// True for a request over this machine's socket, which no page can reach.
fn is_of_this_machine(request: &Request) -> bool {
    request.extensions().get().is_some_and(ConnectionPlace::is_of_this_machine)
}

/// The reason to refuse a host, with the configuration line that would allow it, if there is one. Anyone can send any
/// name.
fn unknown(name: &[u8]) -> String {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= MAX_NAME);
    let allowed = name.and_then(|name| policy::host(name).ok()).filter(|name| *name == printable(name));
    match allowed {
        Some(name) => format!(
            "This gateway is not known as {name}. Use its public URL, have the proxy pass Host, or set \
             `allowed_hosts = [\"{name}\"]` in [http]."
        ),
        None => "This gateway is not known by the host name of this request. Use its public URL.".to_owned(),
    }
}

/// Returns `true` if the text has the form of a host with or without a port; the text is empty if the target has none.
fn is_host(text: &str) -> bool {
    text.is_empty() || !text.contains('@') && text.parse::<Authority>().is_ok()
}

/// The host, and its port if any.
fn split(host: &[u8]) -> (&[u8], &[u8]) {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|byte| *byte == b']').map(|end| end + 1),
        _ => host.iter().rposition(|byte| *byte == b':'),
    };
    let (name, rest) = host.split_at(end.unwrap_or(host.len()));
    (name, rest.strip_prefix(b":").unwrap_or(rest))
}

/// Returns `true` if the name is an address, which foreign sites cannot rebind.
fn is_address(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).unwrap_or_default();
    name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_can_be_allowed_is_named_with_the_line_that_allows_it() {
        let told = unknown(b"Lockkeeper.default.svc");
        assert!(
            told.contains("not known as lockkeeper.default.svc")
                && told.contains("`allowed_hosts = [\"lockkeeper.default.svc\"]`"),
            "{told}"
        );
        let long = "a.".repeat(127);
        for hostile in ["", "a\"]\nb", "<script>", &long, "%0a"] {
            let told = unknown(hostile.as_bytes());
            assert!(!told.contains("allowed_hosts"), "{told}");
        }
        assert!(!unknown(&[0xff, 0xfe]).contains("allowed_hosts"));
    }

    #[test]
    fn the_port_is_not_part_of_the_name() {
        for (host, name, port) in [
            ("localhost:8080", "localhost", "8080"),
            ("[::1]:8080", "[::1]", "8080"),
            ("[::1]", "[::1]", ""),
            ("mcp.example.com", "mcp.example.com", ""),
        ] {
            assert_eq!(split(host.as_bytes()), (name.as_bytes(), port.as_bytes()));
        }
    }
}
