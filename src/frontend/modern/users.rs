//! What each user has running without a session, and which of its clients were here of late. Requests of different users
//! share nothing but a read of the table; those of one user share counters.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;

use super::visits::Visits;
use crate::{
    frontend::settings::Settings,
    mcp::{ClientInfo, ErrorObject},
    model::{Caller, Endpoint, UserId, status::SessionStatus},
    support::Timestamp,
};

/// What is counted apart, so that none of it takes the room of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Requests that run.
    Call,
    /// Open `subscriptions/listen`.
    Listen,
}

/// All users that have something.
#[derive(Debug)]
pub(super) struct Users {
    users: DashMap<UserId, Arc<User>>,
    shared: Arc<Shared>,
}

/// What all users have in common.
#[derive(Debug)]
struct Shared {
    calls: Bound,
    listens: Bound,
    /// How many clients are remembered.
    visits: AtomicUsize,
}

/// How many there can be of one kind.
#[derive(Debug)]
struct Bound {
    /// The option of the configuration, and its value.
    each: (&'static str, usize),
    /// The same for all users together; `None` where the number of users' own is all that bounds them.
    all: Option<(&'static str, usize)>,
    /// Counted where `all` bounds it.
    count: AtomicUsize,
}

/// One user.
#[derive(Debug)]
pub(super) struct User {
    shared: Arc<Shared>,
    calls: AtomicUsize,
    listens: AtomicUsize,
    visits: Visits,
}

/// One of what is counted. Dropping it gives its place to another.
#[derive(Debug)]
pub(super) struct Permit {
    user: Arc<User>,
    kind: Kind,
}

// === impl Users ===

impl Users {
    /// Nobody yet.
    pub(super) fn new(settings: &Settings) -> Self {
        let bound = |each, all| Bound { each, all, count: AtomicUsize::new(0) };
        // one user alone cannot take all of them
        let listens = settings.listens_per_user.min((settings.listens / 2).max(1));
        let shared = Shared {
            calls: bound(("calls_per_user", settings.calls_per_user), None),
            listens: bound(("listens_per_user", listens), Some(("listens", settings.listens))),
            visits: AtomicUsize::new(0),
        };
        Self { users: DashMap::new(), shared: Arc::new(shared) }
    }

    /// The user of this id.
    pub(super) fn get(&self, id: &UserId) -> Arc<User> {
        if let Some(user) = self.users.get(id) {
            return Arc::clone(&user);
        }
        let user = || Arc::new(User::new(Arc::clone(&self.shared)));
        Arc::clone(&self.users.entry(id.clone()).or_insert_with(user))
    }

    /// Forgets the clients that were away since `since`, and the users that have nothing left.
    pub(super) fn sweep(&self, since: Timestamp) {
        self.users.retain(|_, user| {
            let gone = user.visits.forget(since);
            self.shared.visits.fetch_sub(gone, Ordering::Relaxed);
            // whoever is about to begin something holds it
            Arc::strong_count(user) > 1 || !user.visits.is_empty()
        });
    }

    /// The clients that were here after `since`, the first of them first.
    pub(super) fn status(&self, since: Timestamp, now: Timestamp) -> Vec<SessionStatus> {
        let users: Vec<_> = self.users.iter().map(|user| Arc::clone(&user)).collect();
        let mut all: Vec<_> = users.iter().flat_map(|user| user.visits.status(since, now)).collect();
        all.sort_by_key(|(first, _)| *first);
        all.into_iter().map(|(_, status)| status).collect()
    }
}

// === impl User ===

impl User {
    fn new(shared: Arc<Shared>) -> Self {
        let none = || AtomicUsize::new(0);
        Self { shared, calls: none(), listens: none(), visits: Visits::default() }
    }

    /// Notes that a client of this caller, who is this user, is here.
    pub(super) fn note(&self, caller: &Caller, endpoint: &Endpoint, client: &ClientInfo, now: Timestamp) {
        self.visits.note((caller, endpoint), client, &self.shared.visits, now);
    }

    /// Begins one.
    ///
    /// # Errors
    ///
    /// `-32603`, which names the limit, where the user or the gateway has as many as it can have.
    pub(super) fn begin(self: &Arc<Self>, kind: Kind) -> Result<Permit, ErrorObject> {
        let bound = self.shared.bound(kind);
        if !take(self.count(kind), bound.each.1) {
            return Err(refusal(kind, "of yours", bound.each));
        }
        if let Some(all) = bound.all
            && !take(&bound.count, all.1)
        {
            self.count(kind).fetch_sub(1, Ordering::AcqRel);
            return Err(refusal(kind, "of all users", all));
        }
        Ok(Permit { user: Arc::clone(self), kind })
    }

    const fn count(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Call => &self.calls,
            Kind::Listen => &self.listens,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.user.count(self.kind).fetch_sub(1, Ordering::AcqRel);
        let bound = self.user.shared.bound(self.kind);
        if bound.all.is_some() {
            bound.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

// === impl Shared ===

impl Shared {
    const fn bound(&self, kind: Kind) -> &Bound {
        match kind {
            Kind::Call => &self.calls,
            Kind::Listen => &self.listens,
        }
    }
}

/// Counts one more, where `most` allows it.
fn take(count: &AtomicUsize, most: usize) -> bool {
    if count.fetch_add(1, Ordering::AcqRel) < most {
        return true;
    }
    count.fetch_sub(1, Ordering::AcqRel);
    false
}

/// The error that names the limit and says what to do.
fn refusal(kind: Kind, whose: &str, (option, most): (&'static str, usize)) -> ErrorObject {
    metrics::counter!("lockkeeper_frontend_limited_total", "limit" => option).increment(1);
    let (what, remedy) = match kind {
        Kind::Call => ("requests run", "wait until some have ended"),
        Kind::Listen => ("listens are open", "close some, or name more in one"),
    };
    let operator = "or ask the operator to raise the limit";
    ErrorObject::retryable(&format!("too many {what} {whose} (limits.{option} = {most}): {remedy}, {operator}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn users() -> Users {
        Users::new(&Settings { calls_per_user: 1, listens_per_user: 9, listens: 4, ..Settings::default() })
    }

    #[test]
    fn each_user_and_each_kind_has_a_bound_of_its_own() {
        let users = users();
        let (ann, bob) = (users.get(&UserId::new("ann")), users.get(&UserId::new("bob")));
        let call = ann.begin(Kind::Call).unwrap();
        let error = ann.begin(Kind::Call).unwrap_err();
        assert!(error.message().contains("limits.calls_per_user = 1"), "{}", error.message());
        let _bobs = bob.begin(Kind::Call).unwrap();
        let listens = [ann.begin(Kind::Listen).unwrap(), ann.begin(Kind::Listen).unwrap()];
        let error = ann.begin(Kind::Listen).unwrap_err();
        assert!(error.message().contains("limits.listens_per_user = 2"), "half of all: {}", error.message());
        drop(call);
        assert!(ann.begin(Kind::Call).is_ok());
        drop(listens);
        assert!(ann.begin(Kind::Listen).is_ok());
    }

    #[test]
    fn what_all_users_have_together_is_bounded_too() {
        let users = users();
        let begin = |name: &str| users.get(&UserId::new(name)).begin(Kind::Listen);
        let mut open: Vec<_> = ["a", "a", "b", "b"].into_iter().map(|name| begin(name).unwrap()).collect();
        let error = begin("c").unwrap_err();
        assert!(error.message().contains("limits.listens = 4"), "{}", error.message());
        open.pop();
        let third = begin("c").unwrap();
        drop((open, third));
        users.sweep(Timestamp::from_seconds(0));
        assert!(users.users.is_empty(), "nothing is kept of users that have nothing");
    }

    #[test]
    fn a_client_is_shown_until_it_was_away_for_long() {
        let users = users();
        let at = Timestamp::from_seconds;
        for second in [0, 30] {
            let caller = Caller::gateway();
            users.get(&caller.user).note(&caller, &Endpoint::MERGED, &ClientInfo::gateway(), at(second));
        }
        let minute = Duration::from_mins(1);
        let shown = users.status(at(80) - minute, at(80));
        assert_eq!(shown.iter().map(|client| client.idle_seconds).collect::<Vec<_>>(), [50]);
        assert!(users.status(at(90) - minute, at(90)).is_empty());
        users.sweep(at(90) - minute);
        assert!(users.users.is_empty() && users.shared.visits.load(Ordering::Relaxed) == 0);
    }
}
