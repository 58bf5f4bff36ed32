//! What serves the calls of one sharer: a session at a legacy server, or a connection to a modern one.

use std::sync::Arc;

use super::{legacy::Session, modern::Peer};
use crate::{
    crossing::tasks::ServerTasks,
    mcp::{Era, Revision, lifecycle},
};

/// What serves calls until it ends.
#[derive(Clone)]
pub(crate) enum Life {
    /// A session that a handshake opened.
    Legacy(Arc<Session>),
    /// A connection on which every request stands alone.
    Modern(Arc<Peer>),
}

/// What a server said of itself, for people.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// The version that is spoken with it.
    pub(crate) revision: Revision,
    /// What is old about it.
    pub(crate) notices: Vec<String>,
    /// `name version`.
    pub(crate) server: Option<String>,
}

impl Life {
    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Legacy(session) => session.is_over(),
            Self::Modern(peer) => peer.is_over(),
        }
    }

    /// Waits for its end and tells the reason.
    pub(crate) async fn over(&self) -> String {
        match self {
            Self::Legacy(session) => session.over().await,
            Self::Modern(peer) => peer.over().await,
        }
    }

    /// Ends it.
    pub(crate) fn end(&self, reason: &str) {
        match self {
            Self::Legacy(session) => session.end(reason),
            Self::Modern(peer) => peer.end(reason),
        }
    }

    /// The last lines that the server wrote beside the protocol.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        match self {
            Self::Legacy(session) => session.stderr_tail(),
            Self::Modern(peer) => peer.stderr_tail(),
        }
    }

    /// Who keeps the state on it.
    pub(crate) const fn era(&self) -> Era {
        match self {
            Self::Legacy(_) => Era::Legacy,
            Self::Modern(_) => Era::Modern,
        }
    }

    /// The session, where it is one.
    pub(crate) fn into_session(self) -> Option<Arc<Session>> {
        match self {
            Self::Legacy(session) => Some(session),
            Self::Modern(_) => None,
        }
    }

    /// The connection to a modern server, where it is one.
    pub(crate) fn into_peer(self) -> Option<Arc<Peer>> {
        match self {
            Self::Modern(peer) => Some(peer),
            Self::Legacy(_) => None,
        }
    }

    /// How the server has tasks.
    pub(crate) fn tasks(&self) -> ServerTasks {
        match self {
            Self::Legacy(session) => session.tasks(),
            Self::Modern(peer) => peer.introduction().map_or(ServerTasks::NONE, |introduction| introduction.tasks()),
        }
    }

    /// What the server said of itself; `None` while it has not.
    pub(crate) fn said(&self) -> Option<Said> {
        match self {
            Self::Legacy(session) => session.greeting().map(|greeting| Said {
                revision: greeting.revision,
                notices: lifecycle::notices(greeting.revision, &greeting.capabilities()),
                server: greeting.server(),
            }),
            Self::Modern(peer) => peer.introduction().map(|introduction| Said {
                revision: introduction.revision,
                notices: lifecycle::notices(introduction.revision, &introduction.capabilities()),
                server: introduction.server(),
            }),
        }
    }
}
