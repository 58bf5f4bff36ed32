//! Lists of an earlier process, shown until the server has answered (`translation` 6.7).

use futures_util::future::BoxFuture;

use crate::{
    mcp::{Method, Payload},
    model::{BackendId, UserId},
    support::Digest,
};

/// The place of a kept list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlace {
    /// The backend that it is of.
    pub backend: BackendId,
    /// Digest of the server and of the rules for its tools, as configured. A changed section is another server.
    pub section: Digest,
    /// The only user who is shown it; `None` if all are.
    pub user: Option<UserId>,
    /// The capabilities that the server was told, as canonical text; empty: none.
    pub capabilities: String,
    /// The method that lists.
    pub method: Method,
}

/// Keeps lists across restarts, best effort.
pub trait ListStore: Send + Sync {
    /// The list that was kept here last, unless it is too old.
    fn load<'a>(&'a self, place: &'a ListPlace) -> BoxFuture<'a, Option<Payload>>;

    /// Keeps the result of a list request in place of the one before; `None` forgets that one. Returns at once.
    fn keep(&self, place: ListPlace, list: Option<Payload>);
}
