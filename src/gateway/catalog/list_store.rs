//! Lists of an earlier process, shown until the server has answered (`translation` 6.7).

use futures_util::future::BoxFuture;

use crate::{
    mcp::{Method, Payload},
    model::{BackendId, UserId},
    support::Digest,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlace {
    pub backend: BackendId,
    /// Digest of the server and the rules for its tools, as configured. A changed section means another server.
    pub section: Digest,
    /// The only user who may see it; `None` if all may.
    pub user: Option<UserId>,
    /// The capabilities sent to the server, as canonical text; empty: none.
    pub capabilities: String,
    /// The list method.
    pub method: Method,
}

/// Stores lists across restarts, best effort.
pub trait ListStore: Send + Sync {
    /// The last list stored here, unless it is too old.
    fn load<'a>(&'a self, place: &'a ListPlace) -> BoxFuture<'a, Option<Payload>>;

    /// Replaces the stored list by this result of a list request; `None` deletes it. Returns at once.
    fn keep(&self, place: ListPlace, list: Option<Payload>);
}
