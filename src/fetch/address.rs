//! Public addresses, after the registries of special-purpose addresses (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// True if the address belongs to one host on the public internet, and not to a private, shared, local, multicast, test
/// or translated range.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// True for the addresses that fake-IP resolvers assign to names (`198.18.0.0/15`, meant for benchmarks).
pub const fn is_fake(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if matches!(address.octets(), [198, 18 | 19, ..]))
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // this network, private, loopback; multicast, reserved, broadcast
        [0 | 10 | 127 | 224..=255, ..]
            // shared with the customers of a carrier (RFC 6598); link-local, where clouds serve credentials
            | [100, 64..=127, ..] | [169, 254, ..]
            // services of Azure for its machines, reachable only from there
            | [168, 63, 129, 16]
            // private
            | [172, 16..=31, ..] | [192, 168, ..]
            // protocol assignments, documentation, relays of 6to4
            | [192, 0, 0 | 2, _] | [192, 88, 99, _]
            // benchmarks, documentation
            | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _]
    )
}

/// Only `2000::/3` is assigned to hosts. Outside of it are `::1`, IPv4-mapped addresses, local translations of NAT64
/// (`64:ff9b:1::/48`), local, link-local and multicast addresses. The well-known prefix of NAT64 (`64:ff9b::/96`, RFC
/// 6052 2.1) embeds an IPv4 address, put there by a resolver with DNS64.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = segments {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    let is_unicast = segments[0] & 0xe000 == 0x2000;
    let is_special = matches!(
        segments,
        // protocol assignments (Teredo, benchmarks, ORCHID); documentation; 6to4, which holds an IPv4 address
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] | [0x2002, ..]
    );
    is_unicast && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_on_the_internet_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "168.63.129.15",
        ]
        .iter()
        .chain(&[
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00::1",
            "3ffe::1",
            "2001:200::1",
            "64:ff9b::808:808",
        ]) {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn oa_047_addresses_of_special_ranges_are_not_public() {
        let v4 = "0.0.0.0 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 \
                  192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 \
                  224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255";
        let v6 = ":: ::1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::10.0.0.1 64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::c612:1 64:ff9b::1:808:808 64:ff9b:1::1 64:ff9b:1::808:808 100::1 \
                  100:0:0:1::1 2001::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:a00:1:: 3fff::1 3fff:fff::1 \
                  5f00::1 fc00::1 fd00::1 fe80::1 fec0::1 ff02::1";
        for address in v4.split_whitespace().chain(v6.split_whitespace()) {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
