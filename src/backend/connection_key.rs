//! Whose session it is: what keeps people apart at a backend (design rule 5).

use std::hash::{Hash, Hasher};

use crate::{
    mcp::Context,
    model::{BackendSpec, Requester, SessionId, Share, UserId},
};

/// Whose session it is. Two calls reach the same backend session exactly where their keys are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    /// Who shares it.
    pub(crate) scope: SharingScope,
    /// What the client can be asked ([`crate::mcp::Capabilities::key`]): servers show other tools to other clients.
    capabilities: String,
    /// The question slot, which is one of the sessions of one sharer (design rule 4).
    slot: usize,
}

/// Who shares a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharingScope {
    /// The gateway itself, and clients that have no session: lists and status.
    Base,
    /// The gateway, as it lists what it offers to all clients with the same capabilities.
    Catalog,
    /// One client session.
    Session(SessionId),
    /// One user.
    User(UserId),
    /// Everybody.
    All,
}

/// By what tells most keys apart: it is looked up in each call.
impl Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.scope {
            SharingScope::Session(session) => session.hash(state),
            SharingScope::User(user) => user.hash(state),
            SharingScope::Base | SharingScope::Catalog | SharingScope::All => {}
        }
    }
}

impl ConnectionKey {
    /// The session that the gateway itself holds.
    pub(crate) const fn base() -> Self {
        Self { scope: SharingScope::Base, capabilities: String::new(), slot: 0 }
    }

    /// The session that serves `context`.
    pub(crate) fn of(share: Share, context: &Context) -> Self {
        let capabilities = context.client.capabilities.key().to_owned();
        let scope = match (share, &context.requester) {
            // everybody who cannot be asked anything is the same to the server, and so is the gateway
            (Share::All, _) | (_, Requester::Gateway) if capabilities.is_empty() => SharingScope::Base,
            (Share::Session, Requester::Gateway) => SharingScope::Catalog,
            (Share::Session, Requester::Session(session)) => SharingScope::Session(session.clone()),
            // a client without sessions is known by its user and what it can be asked (`translation` 4b.1)
            (Share::User | Share::Session, _) => SharingScope::User(context.caller.user.clone()),
            (Share::All, _) => SharingScope::All,
        };
        Self { scope, capabilities, slot: 0 }
    }

    /// The connection that serves `context` at a modern server: a channel each for those who are to be kept apart, since the
    /// server may keep state for it; one for all where answers come on exchanges of their own, since nothing else does.
    pub(crate) fn of_modern(spec: &BackendSpec, context: &Context) -> Self {
        let scope = match (spec.share, &context.requester) {
            _ if !spec.is_channel() => SharingScope::Base,
            (Share::All, _) | (_, Requester::Gateway) => SharingScope::Base,
            (Share::Session, Requester::Session(session)) => SharingScope::Session(session.clone()),
            (Share::User | Share::Session, _) => SharingScope::User(context.caller.user.clone()),
        };
        Self { scope, capabilities: String::new(), slot: 0 }
    }

    /// Another session of the same sharer.
    #[must_use]
    pub(crate) fn in_slot(&self, slot: usize) -> Self {
        Self { slot, ..self.clone() }
    }

    /// What stands for all sessions of this sharer.
    #[must_use]
    pub(crate) fn sharer(&self) -> Self {
        self.in_slot(0)
    }

    /// Which of the sessions of its sharer it is.
    pub(crate) const fn slot(&self) -> usize {
        self.slot
    }

    /// Whether it is the one session of its sharer that is always there.
    pub(crate) const fn is_first_slot(&self) -> bool {
        self.slot == 0
    }

    /// Whether the clients behind it can be asked anything.
    pub(crate) fn can_be_asked(&self) -> bool {
        !self.capabilities.is_empty()
    }

    /// Whether this is the session of the gateway itself.
    pub(crate) fn is_base(&self) -> bool {
        self.scope == SharingScope::Base
    }

    /// Whether one client session or the gateway alone uses it, so that any of its calls may carry a question (design rule 4).
    pub(crate) const fn is_of_one_client(&self) -> bool {
        matches!(self.scope, SharingScope::Session(_) | SharingScope::Catalog)
    }
}
