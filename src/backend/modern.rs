//! The adapter of 2026-07-28: every request stands alone and carries who asks. Knows nothing of transports: it speaks over
//! a [`super::transport::Transport`].
//!
//! What is kept is the connection alone: the requests that have no answer yet, what the server said of itself, and the one
//! listen that all who listen share.

pub(crate) mod call;
pub(crate) mod discover;
pub(crate) mod introduction;
pub(crate) mod listening;
pub(crate) mod peer;
mod receive;

pub(crate) use introduction::Introduction;
pub(crate) use peer::Peer;
