//! The network address of a client.

use std::net::IpAddr;

/// The address that limits count by: the peer's, or the one reported by a trusted proxy (`OA-138`). A request
/// extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp(pub IpAddr);

impl ClientIp {
    /// The part that an attacker cannot change cheaply: the IPv4 address, or the /64 of an IPv6 address (`OA-127`).
    #[must_use]
    pub fn network(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) & (!0_u128 << 64)).into()),
            v4 @ IpAddr::V4(_) => v4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_one_ipv6_subnet_count_as_one() {
        let network = |text: &str| ClientIp(text.parse().unwrap()).network().to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
