//! The parties that pay for what is held, and their open accounts.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Weak},
};

/// The party that pays for what is held.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The process itself, for what belongs to no one else.
    Process,
    /// The server with this name, for its unsolicited messages.
    Server(Arc<str>),
    /// The user with this id, for requests, answers and unread streams.
    User(Arc<str>),
    /// The client address, for requests whose user is not known yet.
    Address(IpAddr),
}

/// The open accounts: one per holder, as long as it is in use.
#[derive(Debug)]
pub(super) struct OpenAccounts<A>(HashMap<Holder, Weak<A>>);

// === impl OpenAccounts ===

impl<A> Default for OpenAccounts<A> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<A> OpenAccounts<A> {
    /// The account of a holder, opened by `open` if needed.
    pub(super) fn get_or_open(&mut self, holder: Holder, open: impl FnOnce(Holder) -> A) -> Arc<A> {
        if let Some(account) = self.0.get(&holder).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(open(holder.clone()));
        self.0.insert(holder, Arc::downgrade(&account));
        account
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Weak<A>> {
        self.0.values()
    }

    /// Forgets an unused account of a holder; another may have been opened since.
    pub(super) fn close(&mut self, holder: &Holder) {
        if self.0.get(holder).is_some_and(|account| account.strong_count() == 0) {
            self.0.remove(holder);
        }
    }
}

// === impl Holder ===

impl Holder {
    /// The value of the label `holder` in metrics.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Server(_) => "server",
            Self::User(_) => "user",
            Self::Address(_) => "address",
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("the process"),
            Self::Server(name) => write!(f, "server {name}"),
            Self::User(name) => write!(f, "user {name}"),
            Self::Address(address) => write!(f, "address {address}"),
        }
    }
}
