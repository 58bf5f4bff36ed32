//! Key of a connection: separates the callers of a backend (design rule 5).

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{
    mcp::{ClientInfo, Context, Era, SoleClient},
    model::{BackendSpec, CallerIdentity, Requester, SessionId, Share, UserId},
};

/// Key of a connection. Two calls share a connection if their keys are equal, and only then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    pub(crate) scope: SharingScope,
    /// The client's capabilities ([`crate::mcp::Capabilities::key`]): a server may show different tools for each set.
    capabilities: String,
    /// What the server learns about the caller. It is the same for all calls on a connection, since the server may keep
    /// it with its session. `None` if the server learns nothing, and for the gateway itself.
    pub(crate) identity: Option<CallerIdentity>,
    /// Number of the slot: one of the sharer's connections (design rule 4).
    slot: usize,
}

/// Derives the keys at one backend.
#[derive(Clone)]
pub(crate) struct KeyRule {
    spec: Arc<BackendSpec>,
    sole_client: Option<SoleClient>,
}

/// The group of callers that share a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharingScope {
    /// The base connection, used by the gateway and by clients that need no other.
    Base,
    /// The base connection of a gateway with a single client, which it introduces to the server.
    Sole,
    /// The gateway, for lists that it serves to all clients with the same capabilities.
    Catalog,
    Session(SessionId),
    User(UserId),
    All,
}

// === impl KeyRule ===

impl KeyRule {
    /// The rule of one backend. The only client of a gateway uses the base connection if that is a channel. Over HTTP
    /// this would save nothing, so each client keeps its own session.
    pub(crate) fn new(spec: Arc<BackendSpec>, sole_client: Option<SoleClient>) -> Self {
        let sole_client = sole_client.filter(|_| spec.is_channel());
        Self { spec, sole_client }
    }

    /// The only client, if the base connection is its session.
    pub(crate) const fn sole_client(&self) -> Option<&SoleClient> {
        self.sole_client.as_ref()
    }

    /// Key of the base connection.
    pub(crate) fn base(&self) -> ConnectionKey {
        self.sole_client().map_or_else(ConnectionKey::base, |_| ConnectionKey::sole())
    }

    /// Keys of a client's connections to a server with sessions and to one without.
    pub(crate) fn keys(&self, context: &Context) -> [ConnectionKey; 2] {
        [Era::Legacy, Era::Modern].map(|era| self.key(era, context))
    }

    /// Key of a client's connection to a server with sessions.
    pub(crate) fn with_session(&self, context: &Context) -> ConnectionKey {
        self.key(Era::Legacy, context)
    }

    /// Key of a client's connection, if the server is of the era `era`.
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

/// Hashes only the member in which most keys differ: every call looks one up.
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
    /// True if only this user can use the connection. A key does not show whose session it is: every session counts, so
    /// ask only about the user who opened it.
    pub(crate) fn is_of_user(&self, user: &UserId) -> bool {
        match &self.scope {
            SharingScope::User(owner) => owner == user,
            SharingScope::Session(_) => true,
            SharingScope::Base | SharingScope::Sole | SharingScope::Catalog => false,
            // with an identity, the connection belongs to one caller
            SharingScope::All => self.identity.is_some(),
        }
    }

    /// Key of the base connection.
    pub(crate) const fn base() -> Self {
        Self { scope: SharingScope::Base, capabilities: String::new(), identity: None, slot: 0 }
    }

    /// Key of the base connection of a gateway with one client.
    pub(crate) const fn sole() -> Self {
        Self { scope: SharingScope::Sole, capabilities: String::new(), identity: None, slot: 0 }
    }

    /// Key for `context` at a server with sessions.
    pub(crate) fn of(spec: &BackendSpec, context: &Context) -> Self {
        let capabilities = context.client.capabilities.key().to_owned();
        let identity = spec.disclosed(&context.caller, &context.requester);
        let scope = match (spec.share, &context.requester) {
            // a server might mix up several users in one session
            (Share::All, _) if identity.is_some() => SharingScope::User(context.caller.user.clone()),
            // the server cannot tell clients without capabilities from the gateway
            (Share::All, _) | (_, Requester::Gateway) if capabilities.is_empty() => SharingScope::Base,
            (Share::Session, Requester::Gateway) => SharingScope::Catalog,
            (Share::Session, Requester::Session(session)) => SharingScope::Session(session.clone()),
            // a client without a session counts as its user and its capabilities (`translation` 4b.1)
            (Share::User | Share::Session, _) => SharingScope::User(context.caller.user.clone()),
            (Share::All, _) => SharingScope::All,
        };
        Self { scope, capabilities, identity, slot: 0 }
    }

    /// Key for `context` at a modern server. Each sharer has a channel of its own, since the server may keep state for
    /// it. With an exchange for each request, one connection serves all callers that the server does not distinguish.
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

    /// From the key of a client session: the key of the connection that fetches the lists for clients with the same
    /// capabilities, which this session may take over. `None` if the server learns the caller's identity.
    pub(crate) fn introduced(&self) -> Option<Self> {
        let is_session = matches!(self.scope, SharingScope::Session(_)) && self.identity.is_none();
        is_session.then(|| Self { scope: SharingScope::Catalog, ..self.clone() })
    }

    /// Turns the key at a server with sessions into the same client's key at a server without them; `None` if the base
    /// connection serves the client there.
    pub(crate) fn without_sessions(&self) -> Option<Self> {
        match self.scope {
            SharingScope::Session(_) | SharingScope::User(_) => {
                Some(Self { capabilities: String::new(), ..self.clone() })
            }
            SharingScope::Base | SharingScope::Sole | SharingScope::Catalog | SharingScope::All => None,
        }
    }

    /// Key of the connection that fetches the lists for clients like this one. A client's session may take it over.
    /// `None` if sessions are shared, or the server learns the caller's identity.
    pub(crate) fn introducing(spec: &BackendSpec, client: &ClientInfo) -> Option<Self> {
        let capabilities = client.capabilities.key().to_owned();
        let is_session = spec.share == Share::Session && spec.disclosure.is_none();
        is_session.then_some(Self { scope: SharingScope::Catalog, capabilities, identity: None, slot: 0 })
    }

    /// Key of the same sharer's connection in another slot.
    #[must_use]
    pub(crate) fn in_slot(&self, slot: usize) -> Self {
        Self { slot, ..self.clone() }
    }

    /// Key of the sharer, which is also that of its first slot.
    #[must_use]
    pub(crate) fn sharer(&self) -> Self {
        self.in_slot(0)
    }

    /// True if both belong to one sharer.
    pub(crate) fn is_of_sharer(&self, other: &Self) -> bool {
        let Self { scope, capabilities, identity, slot: _ } = self;
        *scope == other.scope && *capabilities == other.capabilities && *identity == other.identity
    }

    /// True if all of the sharer's connections belong to one user.
    pub(crate) const fn is_of_one_user(&self) -> bool {
        matches!(self.scope, SharingScope::User(_) | SharingScope::Session(_))
    }

    pub(crate) const fn slot(&self) -> usize {
        self.slot
    }

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

    pub(crate) const fn is_base(&self) -> bool {
        matches!(self.scope, SharingScope::Base | SharingScope::Sole)
    }

    /// True if the key by itself shows that only one client session, or only the gateway, uses the connection. See
    /// [`crate::backend::connection::state::ConnectionContext::is_of_one_client`].
    pub(crate) const fn is_of_one_client(&self) -> bool {
        matches!(self.scope, SharingScope::Session(_) | SharingScope::Catalog)
    }
}
