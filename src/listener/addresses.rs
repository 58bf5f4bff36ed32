//! Counts of connections, or of requests through a proxy, for each client address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

use crate::{
    model::{ClientIp, LimitsConfig},
    support::Live,
};

/// A count for each client address (an IPv6 address counts as its /64, see [`ClientIp::network`]). Only addresses with
/// a nonzero count are stored, so the table is never larger than what it counts.
#[derive(Debug)]
pub struct Addresses {
    limits: Live<LimitsConfig>,
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// A counted connection or request. Dropping it reduces the count.
#[derive(Debug)]
pub struct AddressPermit {
    addresses: Arc<Addresses>,
    network: IpAddr,
}

// === impl Addresses ===

impl Addresses {
    /// Allows at most `connections_per_address` for each address.
    pub fn new(limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// Counts one more for this address; `None` if it has reached its limit.
    pub fn enter(self: &Arc<Self>, client: ClientIp) -> Option<AddressPermit> {
        let network = client.network();
        let mut held = self.held.lock();
        let count = held.entry(network).or_insert(0);
        if *count >= self.limits.get().connections_per_address {
            return None;
        }
        *count += 1;
        Some(AddressPermit { addresses: Arc::clone(self), network })
    }
}

// === impl AddressPermit ===

impl AddressPermit {
    pub(super) const fn network(&self) -> IpAddr {
        self.network
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut held = self.addresses.held.lock();
        let Some(count) = held.get_mut(&self.network) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_holds_no_more_than_it_may() {
        let limits = LimitsConfig { connections_per_address: 2, ..LimitsConfig::default() };
        let addresses = Addresses::new(Live::new(limits));
        let client = |text: &str| ClientIp(text.parse().unwrap());
        let first = addresses.enter(client("2001:db8::1")).unwrap();
        let second = addresses.enter(client("2001:db8::2")).unwrap();
        assert!(addresses.enter(client("2001:db8::3")).is_none(), "a /64 counts as one address");
        let other = addresses.enter(client("192.0.2.7"));
        assert!(other.is_some());
        drop(first);
        assert!(addresses.enter(client("2001:db8::3")).is_some());
        drop((second, other));
        assert!(addresses.held.lock().is_empty());
    }
}
