//! Key of a connection: separates the callers of a backend (design rule 5).

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{
    mcp::{ClientInfo, Context, Era, SoleClient},
    model::{BackendSpec, CallerIdentity, Requester, SessionId, Share, UserId},
};

/// Key of a connection. Two calls share a connection exactly if their keys are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    /// The sharer.
    pub(crate) scope: SharingScope,
    /// The client's capabilities ([`crate::mcp::Capabilities::key`]): servers may show different tools for different
    /// ones.
    capabilities: String,
    /// What the server is told of the caller: the same for all calls of a connection, since the server may keep it with
    /// its session. `None` if that is nothing, and for the gateway itself.
    pub(crate) identity: Option<CallerIdentity>,
    /// The question slot, one of the sharer's connections (design rule 4).
    slot: usize,
}

/// What decides on the keys at one backend.
#[derive(Clone)]
pub(crate) struct KeyRule {
    spec: Arc<BackendSpec>,
    sole_client: Option<SoleClient>,
}

/// Sharer of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharingScope {
    /// The base connection: of the gateway, and of clients that need no other.
    Base,
    /// The base connection of a gateway that has one client alone: the server is told of that client.
    Sole,
    /// The gateway, for lists that it serves to all clients with the same capabilities.
    Catalog,
    /// One client session.
    Session(SessionId),
    /// One user.
    User(UserId),
    /// All users.
    All,
}

// === impl KeyRule ===

impl KeyRule {
    /// The rule of this backend: the only client of a gateway has the base connection of a channel, since over HTTP nothing
    /// is saved by that, and each keeps its session.
    pub(crate) fn new(spec: Arc<BackendSpec>, sole_client: Option<SoleClient>) -> Self {
        let sole_client = sole_client.filter(|_| spec.is_channel());
        Self { spec, sole_client }
    }

    /// The only client, if the base connection is its own.
    pub(crate) const fn sole_client(&self) -> Option<&SoleClient> {
        self.sole_client.as_ref()
    }

    /// The key of the base connection.
    pub(crate) fn base(&self) -> ConnectionKey {
        self.sole_client().map_or_else(ConnectionKey::base, |_| ConnectionKey::sole())
    }

    /// The keys of a client's connections to servers of both eras.
    pub(crate) fn keys(&self, context: &Context) -> [ConnectionKey; 2] {
        [Era::Legacy, Era::Modern].map(|era| self.key(era, context))
    }

    /// The key of a client's connection to a server with sessions.
    pub(crate) fn with_session(&self, context: &Context) -> ConnectionKey {
        self.key(Era::Legacy, context)
    }

    /// The key of a client's connection to a server of this era.
    pub(crate) fn key(&self, era: Era, context: &Context) -> ConnectionKey {
        let key = match era {
            Era::Legacy => ConnectionKey::of(&self.spec, context),
            Era::Modern => ConnectionKey::of_modern(&self.spec, context),
        };
        match self.sole_client() {
            Some(sole) if key.is_base() || key.identity.is_none() && sole.is(&context.client) => self.base(),
            _ => key,
        }
    }
}

/// Hashes only the member that differs between most keys: every call looks one up.
impl Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.scope {
            SharingScope::Session(session) => session.hash(state),
            SharingScope::User(user) => user.hash(state),
            SharingScope::Base | SharingScope::Sole | SharingScope::Catalog | SharingScope::All => {}
        }
    }
}

impl ConnectionKey {
    /// True if one user alone shares the connection; a session is its user's.
    pub(crate) fn is_of_user(&self, user: &UserId) -> bool {
        match &self.scope {
            SharingScope::User(owner) => owner == user,
            SharingScope::Session(_) => true,
            SharingScope::Base | SharingScope::Sole | SharingScope::Catalog => false,
            // the server is told of one caller
            SharingScope::All => self.identity.is_some(),
        }
    }

    /// The key of the base connection.
    pub(crate) const fn base() -> Self {
        Self { scope: SharingScope::Base, capabilities: String::new(), identity: None, slot: 0 }
    }

    /// The key of the base connection of a gateway with one client.
    pub(crate) const fn sole() -> Self {
        Self { scope: SharingScope::Sole, capabilities: String::new(), identity: None, slot: 0 }
    }

    /// The key for `context` at a server with sessions.
    pub(crate) fn of(spec: &BackendSpec, context: &Context) -> Self {
        let capabilities = context.client.capabilities.key().to_owned();
        let identity = spec.disclosed(&context.caller, &context.requester);
        let scope = match (spec.share, &context.requester) {
            // a session in which several people called could mix them up
            (Share::All, _) if identity.is_some() => SharingScope::User(context.caller.user.clone()),
            // the server cannot tell apart clients without capabilities and the gateway
            (Share::All, _) | (_, Requester::Gateway) if capabilities.is_empty() => SharingScope::Base,
            (Share::Session, Requester::Gateway) => SharingScope::Catalog,
            (Share::Session, Requester::Session(session)) => SharingScope::Session(session.clone()),
            // a client without a session is identified by its user and its capabilities (`translation` 4b.1)
            (Share::User | Share::Session, _) => SharingScope::User(context.caller.user.clone()),
            (Share::All, _) => SharingScope::All,
        };
        Self { scope, capabilities, identity, slot: 0 }
    }

    /// The key for `context` at a modern server. A channel is separate for each sharer, since the server may keep state
    /// for it. Where each request has its own exchange, one connection serves all who are not told apart.
    pub(crate) fn of_modern(spec: &BackendSpec, context: &Context) -> Self {
        let identity = spec.disclosed(&context.caller, &context.requester);
        let user = || SharingScope::User(context.caller.user.clone());
        let scope = match (spec.share, &context.requester) {
            _ if !spec.is_channel() => identity.as_ref().map_or(SharingScope::Base, |_| user()),
            (Share::All, _) if identity.is_some() => user(),
            (Share::All, _) | (_, Requester::Gateway) => SharingScope::Base,
            (Share::Session, Requester::Session(session)) => SharingScope::Session(session.clone()),
            (Share::User | Share::Session, _) => user(),
        };
        Self { scope, capabilities: String::new(), identity, slot: 0 }
    }

    /// Of a client session: the key of the connection that lists for clients with the same capabilities; `None` if the
    /// server was told that the gateway opened it.
    pub(crate) fn introduced(&self) -> Option<Self> {
        let is_session = matches!(self.scope, SharingScope::Session(_)) && self.identity.is_none();
        is_session.then(|| Self { scope: SharingScope::Catalog, ..self.clone() })
    }

    /// The key of the same client at a server without sessions, where this is its key at one with sessions; `None` if the
    /// base connection serves it there.
    pub(crate) fn without_sessions(&self) -> Option<Self> {
        match self.scope {
            SharingScope::Session(_) | SharingScope::User(_) => {
                Some(Self { capabilities: String::new(), ..self.clone() })
            }
            SharingScope::Base | SharingScope::Sole | SharingScope::Catalog | SharingScope::All => None,
        }
    }

    /// The key of the connection that lists for clients like this one, whose sessions may continue it; `None` if they share
    /// theirs, or the server is told who opened it.
    pub(crate) fn introducing(spec: &BackendSpec, client: &ClientInfo) -> Option<Self> {
        let capabilities = client.capabilities.key().to_owned();
        let is_session = spec.share == Share::Session && spec.disclosure.is_none();
        is_session.then_some(Self { scope: SharingScope::Catalog, capabilities, identity: None, slot: 0 })
    }

    /// The same sharer's connection in another slot.
    #[must_use]
    pub(crate) fn in_slot(&self, slot: usize) -> Self {
        Self { slot, ..self.clone() }
    }

    /// The key of the sharer: its first slot.
    #[must_use]
    pub(crate) fn sharer(&self) -> Self {
        self.in_slot(0)
    }

    /// True if both are connections of one sharer.
    pub(crate) fn is_of_sharer(&self, other: &Self) -> bool {
        let Self { scope, capabilities, identity, slot: _ } = self;
        *scope == other.scope && *capabilities == other.capabilities && *identity == other.identity
    }

    /// True if no other user uses the sharer's connections.
    pub(crate) const fn is_of_one_user(&self) -> bool {
        matches!(self.scope, SharingScope::User(_) | SharingScope::Session(_))
    }

    /// The slot.
    pub(crate) const fn slot(&self) -> usize {
        self.slot
    }

    /// True for the sharer's first slot.
    pub(crate) const fn is_first_slot(&self) -> bool {
        self.slot == 0
    }

    /// True if the clients have capabilities, so that the server may send them requests.
    pub(crate) fn can_be_asked(&self) -> bool {
        !self.capabilities.is_empty()
    }

    /// True for the base connection of a gateway with one client.
    pub(crate) const fn is_sole(&self) -> bool {
        matches!(self.scope, SharingScope::Sole)
    }

    /// True for the base connection.
    pub(crate) const fn is_base(&self) -> bool {
        matches!(self.scope, SharingScope::Base | SharingScope::Sole)
    }

    /// True if only one client session, or only the gateway, uses the connection, by the key alone: see
    /// [`crate::backend::connection::state::ConnectionContext::is_of_one_client`].
    pub(crate) const fn is_of_one_client(&self) -> bool {
        matches!(self.scope, SharingScope::Session(_) | SharingScope::Catalog)
    }
}
