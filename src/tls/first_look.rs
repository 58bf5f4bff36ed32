//! Facts that can be checked from inside before the first certificate: where the names lead, and which ports are open.
//! Reports them in the log.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use tokio::time::timeout;

use crate::fetch::{Network as _, SystemNetwork};

/// Maximum time to look up a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Reports where `names` lead for a gateway that listens on `listen`.
pub(super) async fn report(names: &[String], listen: IpAddr, has_plain_port: bool) {
    let own = own_addresses();
    for name in names {
        let found = timeout(LOOKUP_TIMEOUT, SystemNetwork::default().resolve(name)).await;
        match found {
            Ok(Ok(addresses)) => match fault(&addresses, &own, listen) {
                None => tracing::info!("{name} leads to {}, as it should", list(&addresses)),
                Some(fault) => tracing::warn!("{name} leads to {}: {fault}", list(&addresses)),
            },
            Ok(Err(error)) => {
                tracing::warn!("{name} has no address ({error}): give it a record that leads here");
            }
            Err(_) => {
                let advice = "does this machine reach a name server?";
                tracing::warn!("{name} is not found within {} s: {advice}", LOOKUP_TIMEOUT.as_secs());
            }
        }
    }
    if !has_plain_port {
        tracing::info!(
            "port 80 is not open here: authorities look only at port 443, and nobody is redirected from http"
        );
    }
}

/// The likely fault of the addresses of a name.
fn fault(addresses: &[IpAddr], own: &BTreeSet<IpAddr>, listen: IpAddr) -> Option<String> {
    if !addresses.iter().any(|address| own.contains(address)) {
        let what = "none of them is this machine's; that is right if something in front forwards ports 80 and 443 here";
        return Some(what.to_owned());
    }
    let six = addresses.iter().find(|address| address.is_ipv6());
    if let (Some(six), IpAddr::V4(_)) = (six, listen) {
        return Some(format!(
            "authorities and clients prefer {six}, and the gateway listens only on IPv4; listen on [::]:443, or remove \
             that record"
        ));
    }
    let strange = addresses.iter().find(|address| !own.contains(address))?;
    Some(format!("{strange} is not this machine's: clients that are sent there reach another server"))
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The addresses of this machine's interfaces.
fn own_addresses() -> BTreeSet<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    interfaces.filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_told_of() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let own: BTreeSet<IpAddr> = parse(&["203.0.113.7", "2001:db8::7"]).into_iter().collect();
        let told = |addresses: &[&str], listen: &str| fault(&parse(addresses), &own, listen.parse().unwrap());
        assert_eq!(told(&["203.0.113.7", "2001:db8::7"], "::"), None);
        assert!(told(&["198.51.100.1"], "::").unwrap().contains("none of them"));
        assert!(told(&["203.0.113.7", "2001:db8::8"], "::").unwrap().starts_with("2001:db8::8 is not"));
        assert!(told(&["203.0.113.7", "2001:db8::7"], "0.0.0.0").unwrap().contains("only on IPv4"));
    }
}
