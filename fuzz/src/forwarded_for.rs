//! `X-Forwarded-For` behind trusted proxies against a plain reading from the right. Input: a byte that selects the peer, and
//! the header lines.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use lockkeeper::fuzzing::client_address;

use super::input::Dice;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let peers = ["10.0.0.1", "203.0.113.9", "fd00::1", "2001:db8::1"];
    let peer: IpAddr = dice.one(&peers).parse().expect("an address");
    let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().expect("a network")).into();
    let mut headers = HeaderMap::new();
    for line in dice.rest().split(|byte| *byte == b'\n').take(8) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append("x-forwarded-for", value);
        }
    }
    let found = client_address(peer, &headers, &trusted);
    assert_eq!(found, plain(peer, &headers, &trusted), "{peer} {headers:?}");
}

/// Headers like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let lines =
        ["0198.51.100.1, 203.0.113.9, 10.0.0.2", "0a\n203.0.113.9:4711, 10.0.0.2,", "2::ffff:203.0.113.9,[fd00::2]:80"];
    lines.into_iter().map(|line| line.as_bytes().to_vec()).collect()
}

/// All hops in one list, from the right: each is believed as long as the one that names it is trusted.
fn plain(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let lines: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
    let joined = lines.join(",");
    let mut hops: Vec<&str> = if lines.is_empty() { Vec::new() } else { joined.split(',').collect() };
    let mut at = peer;
    while trusted.iter().any(|net| net.contains(&at)) {
        let Some(hop) = hops.pop() else { break };
        let hop = hop.trim();
        let address = hop.parse::<IpAddr>().or_else(|_| hop.parse::<SocketAddr>().map(|socket| socket.ip()));
        let Ok(address) = address else { break };
        at = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
            v4 @ IpAddr::V4(_) => v4,
        };
    }
    at
}
