//! The client's address behind trusted proxies (`OA-138`).

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// The client's address. Behind a trusted proxy it is the right-most address in `X-Forwarded-For` that is not a trusted
/// proxy, because the client controls everything to the left of it. Otherwise it is the other end of the connection.
pub(crate) fn behind(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let lines: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
    let mut nearest = peer;
    for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Some(address) = address_of(hop.trim()) else { break };
        nearest = address;
        if !is_trusted(&address) {
            break;
        }
    }
    nearest
}

/// The address of one hop. Some proxies add a port.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    bare.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", http::HeaderValue::from_static(line));
        }
        let trusted = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        behind(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn a_stranger_cannot_say_who_it_is() {
        assert_eq!(seen("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
    }

    #[test]
    fn the_right_most_hop_that_is_not_ours_is_the_client() {
        assert_eq!(seen("10.0.0.1", &["198.51.100.1, 203.0.113.9, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(seen("10.0.0.1", &["198.51.100.1", "203.0.113.9:4711, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(seen("fd00::1", &["::ffff:203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn nonsense_ends_the_walk() {
        assert_eq!(seen("10.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
    }
}
