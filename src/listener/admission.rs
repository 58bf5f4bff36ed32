//! Admission of connections: a total limit, a limit per address, and eviction of the least important connections.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    addresses::{AddressPermit, Addresses},
    refuse::AdmissionRefusal,
    table::{ConnectionSlot, SlotStatus, Table},
    workers::Assignment,
};
use crate::{
    model::{ClientIp, LimitsConfig},
    support::Live,
};

/// Time that an evicted connection gets to end. It ends when its task yields.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The limits, and the handles that end connections. Owned by the accept loop.
#[derive(Debug)]
pub(super) struct Admission {
    table: Arc<Table>,
    addresses: Arc<Addresses>,
    /// Proxies whose connections carry the requests of many clients.
    proxies: Vec<IpNet>,
    /// The last connection in each slot of the table.
    tenants: Vec<Option<Tenant>>,
}

#[derive(Debug)]
struct Tenant {
    /// The address that it counts for.
    network: Option<IpAddr>,
    end: CancellationToken,
}

/// The place of one connection. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Admitted {
    // dropped before the slot, because a task that waits for the slot must see the lower count
    permit: Option<AddressPermit>,
    slot: ConnectionSlot,
    _worker: Option<Assignment>,
}

// === impl Admission ===

impl Admission {
    /// At most `connections` in total, and `connections_per_address` for each address.
    pub(super) fn new(connections: usize, limits: Live<LimitsConfig>, proxies: Vec<IpNet>) -> Self {
        Self {
            table: Table::new(connections),
            addresses: Addresses::new(limits),
            proxies,
            tenants: std::iter::repeat_with(|| None).take(connections).collect(),
        }
    }

    /// Takes a place for a connection from `peer`. If there is none, closes another connection of the same address, or
    /// of any address: see [`super::state::ConnectionState::eviction_rank`].
    pub(super) async fn admit(&mut self, peer: IpAddr) -> Result<Admitted, AdmissionRefusal> {
        let permit = match self.counted(peer) {
            Some(client) => Some(self.permit(client).await?),
            None => None,
        };
        let slot = match self.table.take() {
            Some(slot) => slot,
            None => self.make_room(|_| true, Table::take).await.ok_or(AdmissionRefusal::Full)?,
        };
        Ok(Admitted { permit, slot, _worker: None })
    }

    /// Sets the handle that ends an admitted connection.
    pub(super) fn admitted(&mut self, index: usize, network: Option<IpAddr>, end: CancellationToken) {
        if let Some(tenant) = self.tenants.get_mut(index) {
            *tenant = Some(Tenant { network, end });
        }
    }

    /// Ends the least important connection, to free its descriptor.
    pub(super) fn shed(&self) {
        self.evict(|_| true);
    }

    /// Waits until no connection is open.
    pub(super) async fn empty(&self) {
        self.table.empty().await;
    }

    /// The client that a connection counts for. `None` for loopback, which is this machine, and for proxies, which
    /// serve many clients.
    fn counted(&self, peer: IpAddr) -> Option<ClientIp> {
        let peer = peer.to_canonical();
        let exempt = peer.is_loopback() || self.proxies.iter().any(|proxy| proxy.contains(&peer));
        (!exempt).then_some(ClientIp(peer))
    }

    async fn permit(&self, client: ClientIp) -> Result<AddressPermit, AdmissionRefusal> {
        if let Some(permit) = self.addresses.enter(client) {
            return Ok(permit);
        }
        let network = Some(client.network());
        let same = |tenant: &Tenant| tenant.network == network;
        self.make_room(same, |_| self.addresses.enter(client)).await.ok_or(AdmissionRefusal::Address)
    }

    /// Ends a connection that `which` accepts, and waits until `take` succeeds.
    async fn make_room<T>(
        &self,
        which: impl Fn(&Tenant) -> bool,
        take: impl Fn(&Arc<Table>) -> Option<T>,
    ) -> Option<T> {
        if !self.evict(which) {
            return None;
        }
        let room = async {
            loop {
                if let Some(taken) = take(&self.table) {
                    return taken;
                }
                self.table.released().await;
            }
        };
        timeout(EVICTION_TIMEOUT, room).await.ok()
    }

    fn evict(&self, which: impl Fn(&Tenant) -> bool) -> bool {
        let tenant = |index: usize| self.tenants.get(index).and_then(Option::as_ref);
        let Some((index, state)) = self.table.evict(|index| tenant(index).is_some_and(&which)) else { return false };
        if let Some(tenant) = tenant(index) {
            tenant.end.cancel();
        }
        metrics::counter!("lockkeeper_connections_evicted_total", "state" => state.label()).increment(1);
        true
    }
}

// === impl Admitted ===

impl Admitted {
    /// Assigns the place to a worker, where the connection counts as long as it lasts.
    pub(super) fn at(self, worker: Assignment) -> Self {
        Self { _worker: Some(worker), ..self }
    }

    pub(super) fn entry(&self) -> SlotStatus {
        self.slot.entry()
    }

    pub(super) const fn index(&self) -> usize {
        self.slot.index()
    }

    pub(super) fn network(&self) -> Option<IpAddr> {
        self.permit.as_ref().map(AddressPermit::network)
    }
}
