//! Counts each user's running requests over all clients, with and without sessions, and keeps the recent clients
//! without sessions. Requests of different users share only a read of the table; requests of one user share counters.

mod recent_clients;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use tokio_util::sync::CancellationToken;

pub(crate) use self::recent_clients::ClientDescription;
use self::recent_clients::RecentClients;
use crate::{
    frontend::frontend_settings::FrontendSettings,
    mcp::{ClientInfo, ErrorObject, observer::RequesterObserver},
    model::{Caller, Endpoint, LimitsConfig, RequestNumber, UserId, status::SessionStatus},
    support::{Account, FastHash, Live, MemoryBudget, Timestamp},
};

/// Kinds of requests with separate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Call,
    /// A `subscriptions/listen` request, while it is open.
    Listen,
}

/// The users, each with the number of its running requests.
pub(crate) struct FrontendUsers {
    users: DashMap<UserId, Arc<User>, FastHash>,
    shared: Arc<RequestCounters>,
    budget: MemoryBudget,
}

/// The requests without sessions.
pub(crate) struct StatelessRequests {
    users: Arc<FrontendUsers>,
    /// Notified when a listen ends.
    pub(super) observer: RequesterObserver,
    /// The number of the last request. Backends identify requests by this number.
    last: AtomicU64,
    /// Ends all requests when the gateway stops.
    pub(super) closed: CancellationToken,
}

/// The counters of all users.
#[derive(Debug)]
struct RequestCounters {
    limits: Live<LimitsConfig>,
    /// Maximum number of client connections.
    connections: usize,
    /// Open listens of all users.
    listens: AtomicUsize,
    /// Number of known clients.
    clients: AtomicUsize,
}

/// The limits for one kind of request.
#[derive(Debug)]
struct RequestBound {
    each: RequestLimit,
    /// The limit for all users together, with their number of requests; `None` if only each user is limited.
    all: Option<RequestLimit>,
}

/// A maximum, and the option that sets it.
#[derive(Debug, Clone, Copy)]
struct RequestLimit {
    option: &'static str,
    max: usize,
}

#[derive(Debug)]
pub(crate) struct User {
    shared: Arc<RequestCounters>,
    /// The account that is charged for this user's queued data.
    pub(super) account: Account,
    /// Running calls over all clients, with and without sessions.
    calls: AtomicUsize,
    listens: AtomicUsize,
    clients: RecentClients,
}

/// The permit of a counted request. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct RequestPermit {
    user: Arc<User>,
    kind: RequestKind,
}

// === impl StatelessRequests ===

impl StatelessRequests {
    pub(crate) fn new(settings: &FrontendSettings, budget: MemoryBudget, observer: RequesterObserver) -> Self {
        Self {
            users: Arc::new(FrontendUsers::new(settings, budget)),
            observer,
            last: AtomicU64::new(0),
            closed: CancellationToken::new(),
        }
    }

    /// The users, whose requests in sessions count too.
    pub(crate) fn users(&self) -> Arc<FrontendUsers> {
        Arc::clone(&self.users)
    }

    /// The user with this id.
    pub(super) fn user(&self, id: &UserId) -> Arc<User> {
        self.users.get(id)
    }

    /// A new request number.
    pub(super) fn number(&self) -> RequestNumber {
        RequestNumber::new(self.last.fetch_add(1, Ordering::Relaxed))
    }

    /// Removes clients without recent requests, and users for whom nothing is left.
    pub(crate) fn sweep(&self, now: Timestamp) {
        let shared = &self.users.shared;
        let since = now - shared.limits.get().session_idle;
        self.users.users.retain(|_, user| {
            let gone = user.clients.forget(since);
            shared.clients.fetch_sub(gone, Ordering::Relaxed);
            // held by a request or a session
            Arc::strong_count(user) > 1 || !user.clients.is_empty()
        });
    }

    /// Forgets the clients of a removed user.
    pub(crate) fn forget_user(&self, user: &UserId) {
        let shared = &self.users.shared;
        self.users.users.remove_if(user, |_, user| {
            let gone = user.clients.forget(Timestamp::from_millis(i64::MAX));
            shared.clients.fetch_sub(gone, Ordering::Relaxed);
            Arc::strong_count(user) == 1
        });
    }

    /// The recent clients for status pages, oldest first.
    pub(crate) fn status(&self, now: Timestamp) -> Vec<SessionStatus> {
        let users: Vec<_> = self.users.users.iter().map(|user| Arc::clone(&user)).collect();
        self.status_among(&users, now)
    }

    pub(crate) fn status_of(&self, user: &UserId, now: Timestamp) -> Vec<SessionStatus> {
        let user = self.users.users.get(user).map(|user| Arc::clone(&user));
        self.status_among(user.as_slice(), now)
    }

    fn status_among(&self, users: &[Arc<User>], now: Timestamp) -> Vec<SessionStatus> {
        let since = now - self.users.shared.limits.get().session_idle;
        let mut all: Vec<_> = users.iter().flat_map(|user| user.clients.status(since, now)).collect();
        all.sort_by_key(|(first, _)| *first);
        all.into_iter().map(|(_, status)| status).collect()
    }

    pub(crate) fn close(&self) {
        self.closed.cancel();
    }
}

// === impl FrontendUsers ===

impl FrontendUsers {
    fn new(settings: &FrontendSettings, budget: MemoryBudget) -> Self {
        Self { users: DashMap::default(), shared: Arc::new(RequestCounters::new(settings)), budget }
    }

    /// The user with this id.
    pub(super) fn get(&self, id: &UserId) -> Arc<User> {
        if let Some(user) = self.users.get(id) {
            return Arc::clone(&user);
        }
        let user = || Arc::new(User::new(Arc::clone(&self.shared), self.budget.user(id.as_str())));
        Arc::clone(&self.users.entry(id.clone()).or_insert_with(user))
    }
}

// === impl User ===

impl User {
    fn new(shared: Arc<RequestCounters>, account: Account) -> Self {
        let none = || AtomicUsize::new(0);
        Self { shared, account, calls: none(), listens: none(), clients: RecentClients::default() }
    }

    /// Records a request of this caller (who must be this user), and returns its client.
    pub(super) fn note(
        &self,
        caller: &Caller,
        endpoint: &Endpoint,
        client: &ClientDescription,
        now: Timestamp,
    ) -> Arc<ClientInfo> {
        self.clients.note(caller, endpoint, client, &self.shared.clients, now)
    }

    /// Counts one request.
    ///
    /// # Errors
    ///
    /// `-32603` with the name of the limit, if the user or the gateway has reached it.
    pub(super) fn begin(self: &Arc<Self>, kind: RequestKind) -> Result<RequestPermit, ErrorObject> {
        let bound = self.shared.bound(kind);
        if !try_add(self.count(kind), bound.each.max) {
            return Err(refusal(kind, "of yours", bound.each));
        }
        if let Some(all) = bound.all
            && !try_add(&self.shared.listens, all.max)
        {
            self.count(kind).fetch_sub(1, Ordering::AcqRel);
            return Err(refusal(kind, "of all users", all));
        }
        Ok(RequestPermit { user: Arc::clone(self), kind })
    }

    const fn count(&self, kind: RequestKind) -> &AtomicUsize {
        match kind {
            RequestKind::Call => &self.calls,
            RequestKind::Listen => &self.listens,
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.user.count(self.kind).fetch_sub(1, Ordering::AcqRel);
        if self.kind == RequestKind::Listen {
            self.user.shared.listens.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

// === impl RequestCounters ===

impl RequestCounters {
    fn new(settings: &FrontendSettings) -> Self {
        let (limits, connections) = (settings.limits.clone(), settings.connections);
        Self { limits, connections, listens: AtomicUsize::new(0), clients: AtomicUsize::new(0) }
    }

    fn bound(&self, kind: RequestKind) -> RequestBound {
        let limits = self.limits.get();
        match kind {
            RequestKind::Call => {
                let each = RequestLimit { option: "calls_per_user", max: limits.calls_per_user };
                RequestBound { each, all: None }
            }
            RequestKind::Listen => {
                let all = limits.all_listens(self.connections);
                // so that one user cannot take all of them
                let each = limits.listens_per_user.min((all / 2).max(1));
                RequestBound {
                    each: RequestLimit { option: "listens_per_user", max: each },
                    all: Some(RequestLimit { option: "listens", max: all }),
                }
            }
        }
    }
}

impl fmt::Debug for FrontendUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontendUsers").finish_non_exhaustive()
    }
}

impl fmt::Debug for StatelessRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatelessRequests").finish_non_exhaustive()
    }
}

/// Counts one more, unless that would exceed `max`.
fn try_add(count: &AtomicUsize, max: usize) -> bool {
    if count.fetch_add(1, Ordering::AcqRel) < max {
        return true;
    }
    count.fetch_sub(1, Ordering::AcqRel);
    false
}

/// The error with the name and value of the limit, and advice for the client.
fn refusal(kind: RequestKind, whose: &str, limit: RequestLimit) -> ErrorObject {
    let RequestLimit { option, max } = limit;
    metrics::counter!("lockkeeper_frontend_limited_total", "limit" => option).increment(1);
    let (what, remedy) = match kind {
        RequestKind::Call => ("requests run", "wait until some have ended"),
        RequestKind::Listen => ("listens are open", "close some, or name more in one"),
    };
    let operator = "or ask the operator to raise the limit";
    ErrorObject::retryable(&format!("too many {what} {whose} (limits.{option} = {max}): {remedy}, {operator}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::Revision;

    fn requests() -> StatelessRequests {
        let session_idle = std::time::Duration::from_mins(1);
        let limits = LimitsConfig {
            calls_per_user: 1,
            listens_per_user: 9,
            listens: Some(4),
            session_idle,
            ..LimitsConfig::default()
        };
        let settings = FrontendSettings::with(limits);
        StatelessRequests::new(&settings, MemoryBudget::unbounded(), RequesterObserver::none())
    }

    #[test]
    fn each_user_and_each_kind_has_a_bound_of_its_own() {
        let requests = requests();
        let (ann, bob) = (requests.user(&UserId::new("ann")), requests.user(&UserId::new("bob")));
        let call = ann.begin(RequestKind::Call).unwrap();
        let error = ann.begin(RequestKind::Call).unwrap_err();
        assert!(error.message().contains("limits.calls_per_user = 1"), "{}", error.message());
        let _bobs = bob.begin(RequestKind::Call).unwrap();
        let listens = [ann.begin(RequestKind::Listen).unwrap(), ann.begin(RequestKind::Listen).unwrap()];
        let error = ann.begin(RequestKind::Listen).unwrap_err();
        assert!(error.message().contains("limits.listens_per_user = 2"), "half of all: {}", error.message());
        drop(call);
        assert!(ann.begin(RequestKind::Call).is_ok());
        drop(listens);
        assert!(ann.begin(RequestKind::Listen).is_ok());
    }

    #[test]
    fn what_all_users_have_together_is_bounded_too() {
        let requests = requests();
        let begin = |name: &str| requests.user(&UserId::new(name)).begin(RequestKind::Listen);
        let mut open: Vec<_> = ["a", "a", "b", "b"].into_iter().map(|name| begin(name).unwrap()).collect();
        let error = begin("c").unwrap_err();
        assert!(error.message().contains("limits.listens = 4"), "{}", error.message());
        open.pop();
        let third = begin("c").unwrap();
        drop((open, third));
        requests.sweep(Timestamp::from_seconds(0));
        assert!(requests.users.users.is_empty(), "nothing is kept of users that have nothing");
    }

    #[test]
    fn a_client_is_shown_until_it_was_away_for_long() {
        let requests = requests();
        let at = Timestamp::from_seconds;
        let (implementation, capabilities) = (ClientInfo::gateway_implementation(), Bytes::from_static(b"{}"));
        let client = ClientDescription { revision: Revision::NEWEST, implementation, capabilities };
        for second in [0, 30] {
            let caller = Caller::gateway();
            requests.user(&caller.user).note(&caller, &Endpoint::MERGED, &client, at(second));
        }
        let shown = requests.status(at(80));
        assert_eq!(shown.iter().map(|client| client.idle_seconds).collect::<Vec<_>>(), [50]);
        assert!(requests.status(at(90)).is_empty());
        requests.sweep(at(90));
        assert!(requests.users.users.is_empty() && requests.users.shared.clients.load(Ordering::Relaxed) == 0);
    }
}
