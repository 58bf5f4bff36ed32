//! By which names the gateway may be called (`OA-138`): a page that rebinds its own name to this address still sends its
//! own name. Knows nothing of ports: they do not tell one site from another here.

use axum::extract::Request;
use http::{StatusCode, Version, header, uri::Authority};

use super::{
    refusal::Refusal,
    settings::{Bound, Settings},
};

/// Probes that orchestrators send to the bare address, and that tell nothing about anybody.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The names of the gateway.
#[derive(Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The host of the public URL, the configured ones, and the loopback names where the gateway is bound to loopback.
    pub fn new(settings: &Settings) -> Self {
        let mut names: Vec<String> = settings.public_url.host_str().map(str::to_owned).into_iter().collect();
        names.extend(settings.hosts.iter().map(|host| host.to_ascii_lowercase()));
        if settings.bound == Bound::Loopback {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self(names)
    }

    /// Refuses a foreign host with 421, and a request that does not say plainly which host it is for with 400 (RFC 9112
    /// 3.2). One of HTTP/1.0 without `Host` passes: no browser sends it, so that it cannot come from a rebound name.
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let host = named(request).map_err(|reason| {
            Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", format!("{reason} (RFC 9112, section 3.2)."))
        })?;
        let Some(host) = host else { return Ok(()) };
        let name = name_of(host);
        let probe = PROBES.contains(&request.uri().path()) && is_address(name);
        if probe || self.0.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let description = "This gateway is not known by the host name of this request. Use its public URL, or add the name to `hosts`.";
        Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", description))
    }
}

/// The host that a request is for, with its port; `None` where it need not say so. That of an absolute target goes before
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

/// Whether the text has the form of a host with or without a port; it is empty where the target has none.
fn is_host(text: &str) -> bool {
    text.is_empty() || !text.contains('@') && text.parse::<Authority>().is_ok()
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.find(']').map_or(host, |end| &host[..end + 2]),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether the name is an address: no name that a foreign site could rebind.
fn is_address(name: &str) -> bool {
    name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_not_part_of_the_name() {
        assert_eq!(name_of("localhost:8080"), "localhost");
        assert_eq!(name_of("[::1]:8080"), "[::1]");
        assert_eq!(name_of("[::1]"), "[::1]");
        assert_eq!(name_of("mcp.example.com"), "mcp.example.com");
    }
}
