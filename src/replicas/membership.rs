//! This replica among the others: its number, its lease, and the other replicas. Only the store decides: a replica that
//! cannot renew its lease there owns nothing afterwards, and a deposed replica learns it there. Holders and watchers of
//! a lease measure its length themselves, with a clock that never steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    clocks::{Clocks, WrongClock},
    home::Home,
    identity::{IdentityError, ReplicaIdentity},
};
use crate::{
    model::{ClockDifference, ReplicaAddress, ReplicaNumber, Target},
    storage::{LeaseRenewal, ReplicaRow, Storage, StorageError},
    support::{Clock, Fence},
};

/// The lease of a replica, after which another may take over what it owns.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// Interval of renewals, and of looks at the others.
pub(super) const RENEWED_EVERY: Duration = Duration::from_millis(1_500);
/// Maximum time of one renewal, so that a hanging connection does not cost the lease.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(2);
/// This replica stops this long before the end of its lease, for messages in transit.
const MARGIN: Duration = Duration::from_millis(500);
/// After a replica left, its last messages may arrive for this long. It keeps its connections open for longer.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// After this time without a renewal, a replica has missed one, and is about to miss another. Messages to it might
/// never be answered.
const LATE: Duration = Duration::from_secs(3);
/// Maximum time to find out whether this replica was deposed, after a failed renewal.
const REGARD_TIMEOUT: Duration = Duration::from_millis(500);
/// Minimum interval of looks at the store for an unknown replica.
const LOOKED_UP_EVERY: Duration = Duration::from_millis(200);
/// The same for all unknown keys together: anyone who can reach the address for replicas can present some.
const KEYS_LOOKED_UP_EVERY: Duration = Duration::from_secs(1);

/// This replica and the others. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Membership(Arc<Inner>);

struct Inner {
    storage: Storage,
    clock: Arc<dyn Clock>,
    number: ReplicaNumber,
    identity: ReplicaIdentity,
    fence: Fence,
    peers: ArcSwap<Peers>,
    /// Replicas with unusable rows. They are deposed when their lease is over.
    left_out: Mutex<BTreeSet<ReplicaNumber>>,
    home: Home,
    clocks: Clocks,
    watch: tokio::sync::Mutex<LeaseWatch>,
    /// The last look at the store for an unknown key. Locked before `watch`, so that nothing else waits for it.
    looked_for_key: tokio::sync::Mutex<Option<Instant>>,
}

type Peers = BTreeMap<ReplicaNumber, Arc<Peer>>;

/// The leases of the others, as this replica has seen them change.
#[derive(Debug)]
struct LeaseWatch {
    /// The last look at the store.
    looked: Instant,
    /// Time of the last successful read.
    read: Instant,
    /// The last renewal of each, and when this replica first saw it.
    leases: BTreeMap<ReplicaNumber, (LeaseRenewal, Instant)>,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: ReplicaAddress,
    pub(super) tls: Arc<ClientConfig>,
    public_key: Vec<u8>,
    /// Set when it has missed two renewals of its lease.
    is_late: AtomicBool,
    /// Cancelled when it has left or was deposed.
    gone: CancellationToken,
}

/// Another replica took over what this one owned, while this one could not renew its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease of this replica ended and others have its sessions: it stops, and has to be started again")]
pub struct Deposed;

/// Why a replica cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A clock that is wrong.
    #[error(transparent)]
    Clock(#[from] WrongClock),
}

/// Why a replica should get no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unready {
    /// It could not renew its lease.
    NoLease,
    /// Its clock is wrong.
    WrongClock(ClockDifference),
}

// === impl Peer ===

impl Peer {
    /// True if it has missed two renewals and may be about to lose its lease.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// Waits until it sends nothing more, since it has left or was deposed: a stopped replica does not announce that.
    pub(super) fn silence(&self) -> impl Future<Output = ()> + Send + 'static {
        let gone = self.gone.clone();
        async move {
            gone.cancelled_owned().await;
            sleep(LAST_ANSWERS).await;
        }
    }
}

// === impl Membership ===

impl Membership {
    /// Joins the replicas of the store under this address, and becomes their home if there is none and these endpoints
    /// need one.
    pub(super) async fn join(
        storage: Storage,
        clock: Arc<dyn Clock>,
        address: &ReplicaAddress,
        at_home: BTreeSet<Target>,
    ) -> Result<Self, JoinError> {
        let storage = storage.for_rounds();
        check_clock(&storage, &*clock).await?;
        let (identity, fence, before) = (ReplicaIdentity::generate()?, Fence::closed(), Instant::now());
        let number = storage.replicas().join(address, identity.public_key(), LEASE, clock.now()).await?;
        fence.open_until(before + LEASE - MARGIN);
        let home = Home::default();
        home.set_targets(at_home);
        let watch = LeaseWatch { looked: before, read: before, leases: BTreeMap::new() };
        let membership = Self(Arc::new(Inner {
            storage,
            clock,
            number,
            identity,
            fence,
            peers: ArcSwap::default(),
            left_out: Mutex::default(),
            home,
            clocks: Clocks::default(),
            watch: watch.into(),
            looked_for_key: tokio::sync::Mutex::default(),
        }));
        membership.look().await?;
        tracing::info!(replica = %number, %address, others = membership.0.peers.load().len(), "joined the replicas");
        Ok(membership)
    }

    /// The number of this replica.
    pub(super) fn number(&self) -> ReplicaNumber {
        self.0.number
    }

    /// Open while the lease of this replica runs.
    pub(super) fn fence(&self) -> &Fence {
        &self.0.fence
    }

    /// This replica's knowledge of the home.
    pub(super) fn home(&self) -> &Home {
        &self.0.home
    }

    /// The key of this replica.
    pub(super) fn identity(&self) -> &ReplicaIdentity {
        &self.0.identity
    }

    /// Why this replica should get no requests at the moment, if so.
    pub(super) fn unready(&self) -> Option<Unready> {
        if !self.0.fence.is_open() {
            return Some(Unready::NoLease);
        }
        self.0.clocks.wrong().map(Unready::WrongClock)
    }

    /// Renews the lease until `stop`, and deposes replicas whose lease is over.
    ///
    /// # Errors
    ///
    /// [`Deposed`].
    pub(super) async fn keep(&self, stop: &CancellationToken) -> Result<(), Deposed> {
        let mut rounds = interval(RENEWED_EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // this replica has renewed without interruption since; others may still be about to
        let mut renewed_since: Option<Instant> = None;
        while stop.run_until_cancelled(rounds.tick()).await.is_some() {
            let before = Instant::now();
            match timeout(RENEWAL_TIMEOUT, self.renew()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Err(Deposed),
                failed => {
                    let why = failed.map_or_else(|_| "no answer".to_owned(), |other| format!("{other:?}"));
                    tracing::warn!(why, "the lease of this replica could not be renewed");
                    renewed_since = None;
                    self.still_there().await?;
                    continue;
                }
            }
            let since = *renewed_since.get_or_insert(before);
            match timeout(RENEWAL_TIMEOUT, self.look()).await {
                Ok(Ok(over)) if before - since >= LEASE => self.depose(over).await,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the other replicas could not be read"),
                Err(_) => tracing::warn!("the other replicas could not be read in time"),
            }
        }
        Ok(())
    }

    /// Renews the lease; `false` if this replica was deposed.
    async fn renew(&self) -> Result<bool, StorageError> {
        let (before, clock) = (Instant::now(), self.0.clock.now());
        let Some(ahead) = self.0.storage.replicas().renew(self.0.number, LEASE, clock).await? else { return Ok(false) };
        self.0.fence.open_until(before + LEASE - MARGIN);
        self.0.clocks.measured(ahead, before.elapsed());
        Ok(true)
    }

    /// After a failed renewal: a database that accepts no writes may still show that others have deposed this replica.
    async fn still_there(&self) -> Result<(), Deposed> {
        let regard = async { self.0.storage.replicas().is_there(self.0.number).await };
        match timeout(REGARD_TIMEOUT, regard).await {
            Ok(Ok(false)) => Err(Deposed),
            _ => Ok(()),
        }
    }

    /// Leaves: from now on, others may take over what this replica owned.
    pub(super) async fn leave(&self) {
        if let Err(error) = self.0.storage.replicas().leave(self.0.number).await {
            tracing::warn!(%error, "the others take over only when the lease of this replica is over");
        }
    }

    /// True if there were other replicas at the last look.
    pub(super) fn has_others(&self) -> bool {
        !self.0.peers.load().is_empty()
    }

    /// Another replica, if it is known.
    pub(super) fn known(&self, number: ReplicaNumber) -> Option<Arc<Peer>> {
        self.0.peers.load().get(&number).cloned()
    }

    /// Another replica, which may have joined a moment ago.
    pub(super) async fn find(&self, number: ReplicaNumber) -> Option<Arc<Peer>> {
        if let Some(peer) = self.known(number) {
            return Some(peer);
        }
        // lower numbers were already there when this replica joined
        if number > self.0.number {
            self.look_again().await;
        }
        self.known(number)
    }

    /// True if this is the key of another replica.
    pub(super) async fn is_key_of_another(&self, public_key: &[u8]) -> bool {
        let is_known = || self.0.peers.load().values().any(|peer| peer.public_key == public_key);
        if is_known() {
            return true;
        }
        self.look_for_key().await;
        is_known()
    }

    /// Looks for an unknown key, or waits for a look that begins after this call.
    async fn look_for_key(&self) {
        let asked = Instant::now();
        let mut looked = self.0.looked_for_key.lock().await;
        if looked.is_some_and(|looked| looked > asked) {
            return;
        }
        if let Some(last) = *looked {
            sleep_until(last + KEYS_LOOKED_UP_EVERY).await;
        }
        *looked = Some(Instant::now());
        self.look_again().await;
    }

    /// Waits until a replica is gone, at most for this time.
    pub(super) async fn gone(&self, number: ReplicaNumber, within: Duration) {
        if let Some(peer) = self.known(number) {
            let _ = timeout(within, peer.gone.cancelled()).await;
        }
    }

    /// Renews the lease at once.
    #[cfg(test)]
    pub(super) async fn renew_for_tests(&self) {
        assert!(self.renew().await.unwrap());
    }

    #[cfg(test)]
    pub(super) async fn look_for_tests(&self) {
        self.look().await.unwrap();
    }

    /// The last look for an unknown key.
    #[cfg(test)]
    pub(super) async fn looked_for_key_at(&self) -> Instant {
        self.0.looked_for_key.lock().await.unwrap()
    }

    /// Looks, or waits for a look that begins after this call.
    pub(super) async fn look_again(&self) {
        let asked = Instant::now();
        let mut watch = self.0.watch.lock().await;
        if watch.looked > asked {
            return;
        }
        sleep_until(watch.looked + LOOKED_UP_EVERY).await;
        match timeout(RENEWAL_TIMEOUT, self.read(&mut watch)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the other replicas could not be read"),
            Err(_) => tracing::warn!("the other replicas could not be read in time"),
        }
    }

    /// Reads the other replicas, and returns the ones whose lease is over.
    async fn look(&self) -> Result<Vec<(ReplicaNumber, LeaseRenewal)>, StorageError> {
        self.read(&mut *self.0.watch.lock().await).await
    }

    /// The same, one after the other, so that older reads cannot replace newer ones.
    async fn read(&self, watch: &mut LeaseWatch) -> Result<Vec<(ReplicaNumber, LeaseRenewal)>, StorageError> {
        watch.looked = Instant::now();
        let rows = self.0.storage.replicas().list().await?;
        let others = || rows.iter().filter(|row| row.number != self.0.number);
        watch.note(others());
        let known = self.0.peers.load_full();
        self.0.left_out.lock().retain(|number| rows.iter().any(|row| row.number == *number));
        let is_left_out = |row: &&ReplicaRow| self.0.left_out.lock().contains(&row.number);
        if !others().filter(|row| !is_left_out(row)).map(|row| row.number).eq(known.keys().copied()) {
            let peers: Peers = others().filter_map(|row| Some((row.number, self.peer(row, &known)?))).collect();
            self.replace(peers);
        }
        for (number, peer) in &*self.0.peers.load_full() {
            peer.is_late.store(watch.silence(*number) >= LATE, Ordering::Relaxed);
        }
        let present = others().filter(|row| watch.silence(row.number) < LATE);
        self.0.clocks.compare(&present.filter_map(|row| row.clock).collect::<Vec<_>>());
        self.look_for_home(&rows).await?;
        let over = others().filter(|row| watch.silence(row.number) >= LEASE);
        Ok(over.map(|row| (row.number, row.renewal)).collect())
    }

    /// Notes which replica is the home, or becomes it if there is none. If the answer to that write was lost, the rows
    /// still show that this replica is the home.
    async fn look_for_home(&self, rows: &[ReplicaRow]) -> Result<(), StorageError> {
        let home = rows.iter().find(|row| row.is_home).map(|row| row.number);
        self.0.home.set_other(home.filter(|number| *number != self.0.number));
        let is_here = match home {
            Some(number) => number == self.0.number,
            None => self.0.home.is_wanted() && self.0.storage.replicas().take_home(self.0.number).await?,
        };
        if is_here && !self.0.home.here().is_open() {
            tracing::info!(replica = %self.0.number, "this replica runs the servers that all replicas share");
            self.0.home.here().open();
        }
        Ok(())
    }

    fn peer(&self, row: &ReplicaRow, known: &Peers) -> Option<Arc<Peer>> {
        if let Some(peer) = known.get(&row.number) {
            return Some(Arc::clone(peer));
        }
        let usable = match (self.0.identity.toward(&row.public_key), row.address.clone()) {
            (Ok(tls), Some(address)) => Ok((tls, address)),
            (Err(error), _) => Err(format!("its key cannot be used: {error}")),
            (_, None) => Err("it has no address".to_owned()),
        };
        let (tls, address) = usable.map_err(|why| self.leave_out(row.number, &why)).ok()?;
        let (public_key, is_late, gone) = (row.public_key.clone(), AtomicBool::default(), CancellationToken::new());
        Some(Arc::new(Peer { address, tls, public_key, is_late, gone }))
    }

    fn leave_out(&self, number: ReplicaNumber, why: &str) {
        if self.0.left_out.lock().insert(number) {
            tracing::error!(replica = %number, why, "a replica is left out until its lease is over; is it of another version?");
        }
    }

    fn replace(&self, peers: Peers) {
        let before = self.0.peers.swap(Arc::new(peers));
        let now = self.0.peers.load();
        for (_, peer) in before.iter().filter(|(number, _)| !now.contains_key(number)) {
            peer.gone.cancel();
        }
    }

    async fn depose(&self, over: Vec<(ReplicaNumber, LeaseRenewal)>) {
        for (number, last) in over {
            match self.0.storage.replicas().depose(number, last).await {
                Ok(true) => {
                    metrics::counter!("lockkeeper_replicas_deposed_total").increment(1);
                    tracing::warn!(replica = %number, "the lease of a replica is over: others have its sessions now");
                    let _watch = self.0.watch.lock().await;
                    let mut rest = Peers::clone(&self.0.peers.load());
                    rest.remove(&number);
                    self.replace(rest);
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "a replica whose lease is over could not be deposed"),
            }
        }
    }
}

// === impl LeaseWatch ===

impl LeaseWatch {
    /// Notes the result of a look. After a time without one, all leases start over: the others may be about to renew
    /// theirs, as this replica was.
    fn note<'a>(&mut self, rows: impl Iterator<Item = &'a ReplicaRow>) {
        let now = Instant::now();
        let before = if now - self.read < LATE { std::mem::take(&mut self.leases) } else { BTreeMap::new() };
        self.read = now;
        let seen = |row: &ReplicaRow| before.get(&row.number).filter(|(last, _)| *last == row.renewal).copied();
        self.leases = rows.map(|row| (row.number, seen(row).unwrap_or((row.renewal, now)))).collect();
    }

    /// Time since a replica renewed its lease, as far as it was watched.
    fn silence(&self, number: ReplicaNumber) -> Duration {
        self.leases.get(&number).map_or(Duration::ZERO, |(_, since)| self.read - *since)
    }
}

/// Refuses to join with a wrong clock.
async fn check_clock(storage: &Storage, clock: &dyn Clock) -> Result<(), JoinError> {
    let (before, shown) = (Instant::now(), clock.now());
    let database = storage.replicas().clock().await?;
    let raw = ClockDifference::from_millis(shown.as_millis().saturating_sub(database.as_millis()));
    let others: Vec<_> = storage.replicas().list().await?.iter().filter_map(|row| row.clock).collect();
    Clocks::admit(raw.at_least(before.elapsed()), &others)?;
    Ok(())
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("number", &self.number).finish_non_exhaustive()
    }
}
