//! What can go wrong in the authorization server, and how each protocol error is answered.

use crate::storage;

/// What can go wrong inside; never shown to clients.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Not built yet.
    #[error("not built yet")]
    Unfinished,
}
