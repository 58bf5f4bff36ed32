//! The memory budget: held memory is charged to an account, and given back on drop.
//!
//! An account belongs to a holder: the process, a server, a user, or an address before its user is known. A fair share
//! is the budget divided by the number of holders that hold something. Once seven eighths are taken, the holder
//! furthest above its share pays for the next charge: it gives up what it can best do without ([`Relief`]). The last
//! eighth is for holders within their share, so they do not wait for a greedy one.
//!
//! The first [`STEP`] bytes of each holding are free, and the rest is charged in such steps. So a message that waits
//! for a moment writes no counter that others write.

mod charge;
mod claim;
mod holders;
mod revocable;
#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use self::holders::OpenAccounts;
pub use self::{charge::Charge, claim::Claim, holders::Holder, revocable::Revocable};

/// Charges are multiples of this many bytes; less is free.
pub const STEP: usize = 4 * 1024;
/// How long to wait for memory that others are about to give back.
const PATIENCE: Duration = Duration::from_secs(2);

/// The budget of a process. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

/// The account of one holder. Cheap to clone.
#[derive(Clone)]
pub struct Account(Arc<AccountState>);

/// Things that a holder above its share gives up, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relief {
    /// Sent messages, kept in case a client comes back for them.
    Replay,
    /// Lists that have no reader at the moment, and other things that can be requested again.
    Lists,
    /// Notifications that wait to be read.
    Notifications,
    /// Streams that are not read.
    Streams,
    /// Calls, which end with an error.
    Calls,
}

/// A holding that can be given up.
pub trait Holding: Send + Sync {
    /// Gives up, at once, the part named by `relief` of what `account` pays for here. Must not wait for a lock that is
    /// held during a charge.
    fn give_up(&self, account: &Account, relief: Relief);
}

/// A place among the holdings of an account, until it is dropped.
#[derive(Debug)]
pub struct Listed {
    account: Account,
    number: u64,
}

/// The budget has no room for something, and its holder is not within its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's memory for messages is used up, and too much of it by the same user or server")]
pub struct Exhausted;

/// A waiter for memory that others give back.
struct Waiting<'a>(&'a AtomicUsize);

/// The use of the budget at one moment, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// The budget.
    pub budget: usize,
    pub held: usize,
    /// The holders in use, largest first.
    pub holders: Vec<(Holder, usize)>,
}

struct Budget {
    /// The budget in bytes.
    most: AtomicUsize,
    /// The sum of all charges; never more.
    held: AtomicUsize,
    accounts: Mutex<OpenAccounts<AccountState>>,
    /// The number of waiters for memory that others give back.
    waiting: AtomicUsize,
    freed: Notify,
}

struct AccountState {
    budget: Arc<Budget>,
    holder: Holder,
    held: AtomicUsize,
    /// The part of it about to be given back.
    leaving: AtomicUsize,
    holdings: Mutex<Holdings>,
}

#[derive(Default)]
struct Holdings {
    by_number: BTreeMap<u64, Weak<dyn Holding>>,
    last: u64,
}

// === impl MemoryBudget ===

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(most: usize) -> Self {
        let none = || AtomicUsize::new(0);
        let (most, accounts, freed) = (AtomicUsize::new(most), Mutex::default(), Notify::new());
        Self(Arc::new(Budget { most, held: none(), accounts, waiting: none(), freed }))
    }

    /// A budget that is never used up, for tools and tests.
    pub fn unbounded() -> Self {
        Self::new(usize::MAX / 2)
    }

    /// Changes the budget. Memory held in excess stays until space is needed.
    pub fn set(&self, most: usize) {
        self.0.most.store(most, Ordering::Relaxed);
    }

    /// The account of a user.
    pub fn user(&self, user: &str) -> Account {
        self.account(Holder::User(user.into()))
    }

    /// The account of a server.
    pub fn server(&self, server: &str) -> Account {
        self.account(Holder::Server(server.into()))
    }

    /// The account of a client address.
    pub fn address(&self, address: std::net::IpAddr) -> Account {
        self.account(Holder::Address(address))
    }

    /// The account of the process.
    pub fn process(&self) -> Account {
        self.account(Holder::Process)
    }

    fn account(&self, holder: Holder) -> Account {
        let open = |holder| {
            let (held, leaving) = (AtomicUsize::new(0), AtomicUsize::new(0));
            AccountState { budget: Arc::clone(&self.0), holder, held, leaving, holdings: Mutex::default() }
        };
        Account(self.0.accounts.lock().get_or_open(holder, open))
    }

    /// Sets the gauges of what is held, by kind of holder.
    pub fn report(&self) {
        let used = self.in_use();
        let of = |kind: &str| {
            let holders = used.holders.iter().filter(|(holder, _)| holder.kind() == kind);
            bytes(holders.map(|(_, held)| held).sum())
        };
        for kind in ["process", "server", "user", "address"] {
            metrics::gauge!("lockkeeper_memory_held_bytes", "holder" => kind).set(of(kind));
        }
        metrics::gauge!("lockkeeper_memory_budget_bytes").set(bytes(used.budget));
    }

    /// The use at this moment.
    pub fn in_use(&self) -> MemoryUse {
        let holders = self.0.holders();
        let holders = holders.iter().map(|account| (account.0.holder.clone(), account.held())).collect();
        MemoryUse { budget: self.0.most(), held: self.0.held.load(Ordering::Relaxed), holders }
    }
}

/// As a metric value, to the kibibyte.
fn bytes(count: usize) -> f64 {
    f64::from(u32::try_from(count / 1024).unwrap_or(u32::MAX)) * 1024.0
}

// === impl Budget ===

impl Budget {
    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Up to this many bytes, anyone may take what is free.
    fn free_for_all(&self) -> usize {
        self.most() / 8 * 7
    }

    /// Takes so many bytes, if no more than `most` are then held.
    fn take(&self, bytes: usize, most: usize) -> bool {
        let taken = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// The accounts in use, largest first.
    fn holders(&self) -> Vec<Account> {
        // no account may be dropped under the lock, which its drop needs
        let mut held: Vec<Account> = self.accounts.lock().all().filter_map(Weak::upgrade).map(Account).collect();
        held.retain(|account| account.held() > 0);
        held.sort_by_key(|account| Reverse(account.staying()));
        held
    }

    /// The fair share of these holders, if `asking` holds something too.
    fn share(&self, holders: &[Account], asking: &Account) -> usize {
        let is_among = holders.iter().any(|account| account.is(asking));
        self.most() / (holders.len() + usize::from(!is_among)).max(1)
    }

    /// Frees so many bytes for `asking`, at the expense of holders above their share. Returns the share.
    fn make_room(&self, asking: &Account, bytes: usize) -> usize {
        let holders = self.holders();
        let share = self.share(&holders, asking);
        let staying = || self.held.load(Ordering::Relaxed) - holders.iter().map(Account::leaving).sum::<usize>();
        let missing = || (staying() + bytes).saturating_sub(self.free_for_all());
        let wants = |account: &Account| if account.is(asking) { bytes } else { 0 };
        for account in holders.iter().filter(|account| account.staying() + wants(account) > share) {
            let is_asking = account.is(asking);
            account.pay(|| missing() == 0 || account.staying() + wants(account) <= share, is_asking);
            if missing() == 0 {
                break;
            }
        }
        share
    }
}

// === impl Waiting ===

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

// === impl Account ===

impl Account {
    /// An unshared account without a limit, for tools and tests.
    pub fn unbounded() -> Self {
        MemoryBudget::unbounded().process()
    }

    pub fn holder(&self) -> &Holder {
        &self.0.holder
    }

    /// True if it is the same account.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes that are charged to it.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Lists a holding that can be given up.
    pub fn list(&self, holding: Weak<dyn Holding>) -> Listed {
        let mut holdings = self.0.holdings.lock();
        holdings.last += 1;
        let number = holdings.last;
        holdings.by_number.insert(number, holding);
        Listed { account: self.clone(), number }
    }

    /// Counts so many bytes as about to be given back.
    fn leaves(&self, bytes: usize) {
        self.0.leaving.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts them no longer.
    fn left(&self, bytes: usize) {
        self.0.leaving.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn leaving(&self) -> usize {
        self.0.leaving.load(Ordering::Relaxed).min(self.held())
    }

    fn staying(&self) -> usize {
        self.held() - self.leaving()
    }

    /// Takes so many bytes. No lock of a [`Holding`] may be held during this.
    fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let budget = &self.0.budget;
        if bytes > budget.free_for_all() {
            // it would not fit even if others gave way
            return Err(Exhausted);
        }
        if !budget.take(bytes, budget.free_for_all()) {
            let share = budget.make_room(self, bytes);
            let is_within_share = self.staying() + bytes <= share.min(budget.most() - budget.free_for_all());
            let most = if is_within_share { budget.most() } else { budget.free_for_all() };
            if !budget.take(bytes, most) {
                metrics::counter!("lockkeeper_memory_refused_total").increment(1);
                return Err(Exhausted);
            }
        }
        self.0.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes so many bytes. A holder within its share waits a moment for memory that others are about to give back.
    async fn take_soon(&self, bytes: usize) -> Result<(), Exhausted> {
        if self.take(bytes).is_ok() {
            return Ok(());
        }
        let budget = &self.0.budget;
        let _waiting = Waiting::begin(&budget.waiting);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let freed = budget.freed.notified();
            tokio::pin!(freed);
            // after this point, no freed memory is missed
            freed.as_mut().enable();
            if self.take(bytes).is_ok() {
                return Ok(());
            }
            let holders = budget.holders();
            if self.staying() + bytes > budget.share(&holders, self) {
                return Err(Exhausted);
            }
            if holders.iter().all(|account| account.leaving() == 0) {
                // no holder is about to give way, or one just did
                return self.take(bytes);
            }
            timeout_at(deadline, freed).await.map_err(|_| Exhausted)?;
        }
    }

    fn give_back(&self, bytes: usize) {
        let budget = &self.0.budget;
        self.0.held.fetch_sub(bytes, Ordering::Relaxed);
        budget.held.fetch_sub(bytes, Ordering::SeqCst);
        if budget.waiting.load(Ordering::SeqCst) > 0 {
            budget.freed.notify_waiters();
        }
    }

    /// Gives up holdings until it is `enough`. A holder that asks for more keeps its streams and calls: the new charge
    /// is refused instead.
    fn pay(&self, enough: impl Fn() -> bool, is_asking: bool) {
        let order = [Relief::Replay, Relief::Lists, Relief::Notifications, Relief::Streams, Relief::Calls];
        let spares = |relief: Relief| is_asking && matches!(relief, Relief::Streams | Relief::Calls);
        for relief in order.into_iter().filter(|relief| !spares(*relief)) {
            let holdings: Vec<_> = self.0.holdings.lock().by_number.values().filter_map(Weak::upgrade).collect();
            for holding in holdings {
                if enough() {
                    return;
                }
                let before = self.staying();
                holding.give_up(self, relief);
                if self.staying() < before {
                    metrics::counter!("lockkeeper_memory_reclaimed_total", "what" => relief.name()).increment(1);
                }
            }
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.0.holder).finish()
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryBudget").field(&self.0.most()).finish()
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        self.budget.accounts.lock().close(&self.holder);
    }
}

// === impl Listed ===

impl Drop for Listed {
    fn drop(&mut self) {
        self.account.0.holdings.lock().by_number.remove(&self.number);
    }
}

// === impl Relief ===

impl Relief {
    /// The value of the label `what` in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Lists => "lists",
            Self::Notifications => "notifications",
            Self::Streams => "streams",
            Self::Calls => "calls",
        }
    }
}
