//! Owners of tasks at servers, as stored. They contain no task ids, only digests.

use super::{BackendId, BackendSpec, Owner, TransportSpec};
use crate::support::{Digest, Timestamp};

/// The ids of one server's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskScope {
    /// The digest of the server.
    pub server: Digest,
    /// True if the server itself tells callers apart. Such a server decides about tasks of unknown owner, and may give
    /// two callers tasks with the same id.
    pub tells_callers_apart: bool,
}

/// A task and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedTask {
    pub task: Digest,
    pub scope: TaskScope,
    pub owner: Owner,
    /// The time until which it is kept.
    pub expires: Timestamp,
    /// True if it has ended.
    pub has_ended: bool,
}

/// A stored task, as one owner may know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundTask {
    /// As [`TaskScope::digest_of`].
    pub task: Digest,
    /// Its holder.
    pub holder: TaskHolder,
}

/// The holder of a stored task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskHolder {
    /// The caller who asks about it.
    Asker {
        /// The time until which it is kept.
        expires: Timestamp,
        /// True if it has ended.
        has_ended: bool,
    },
    Others,
}

// === impl TaskScope ===

impl TaskScope {
    /// The tasks of a configured server.
    pub fn of(spec: &BackendSpec) -> Self {
        let is_own_process = matches!(spec.transport, TransportSpec::Stdio(_)) && spec.share != super::Share::All;
        let is_told = spec.disclosure.as_ref().is_some_and(super::Disclosure::tells_apart);
        let server = spec.transport.server();
        let parts = [spec.id.as_str().to_owned(), server.map(|server| server.to_base64url()).unwrap_or_default()];
        Self {
            server: Digest::sha256(parts.join(" ")),
            tells_callers_apart: is_own_process || is_told || spec.is_per_user(),
        }
    }

    /// The tasks of a server that does not tell callers apart, by the name of its backend.
    pub fn shared(backend: &BackendId) -> Self {
        Self { server: Digest::sha256(backend.as_str()), tells_callers_apart: false }
    }

    /// The digest of the task with this id.
    pub fn digest_of(&self, id: &str) -> Digest {
        Digest::sha256([self.server.as_bytes().as_slice(), id.as_bytes()].concat())
    }
}
