//! Converts a session to a row of the store and back, and to an entry of status pages.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    frontend::{
        frontend_settings::FrontendSettings,
        session::{Session, SessionOrigin},
    },
    mcp::{Capabilities, ClientInfo, Level, Revision},
    model::{Caller, ReplicaNumber, Rights, SessionAddress, SessionId, status::SessionStatus},
    storage::mcp_sessions::{McpSession, McpSessionState},
    support::{Digest, Timestamp},
};

/// The row of a session that this replica owns; `None` before its client sent `initialize`.
pub(super) fn row(session: &Session, owner: ReplicaNumber) -> Option<McpSession> {
    let client = session.client()?;
    let (digest, state) = change(session);
    Some(McpSession {
        digest,
        user: session.owner.user.clone(),
        client: session.owner.client.clone(),
        key: session.owner.key.clone(),
        endpoint: session.address.to_string(),
        revision: client.revision.to_string(),
        implementation: client.implementation.to_vec(),
        capabilities: client.capabilities.json().to_vec(),
        state,
        created: session.created,
        owner,
    })
}

/// The part of a session's row that can change.
pub(super) fn change(session: &Session) -> (Digest, McpSessionState) {
    let state = McpSessionState {
        log_level: session.level().map(|level| level.as_str().to_owned()),
        subscriptions: session.subscriptions(),
        initialized: session.is_initialized(),
        last_seen: session.last_seen(),
    };
    (Digest::sha256(session.id.as_str()), state)
}

/// The origin of a stored session, for the first request after a restart; `None` if it belongs to another caller.
pub(super) fn origin(row: &McpSession, id: SessionId, caller: &Caller) -> Option<SessionOrigin> {
    let (user, client, key) = (row.user.clone(), row.client.clone(), row.key.clone());
    let opened = Caller { user, client, grant: None, key, rights: Rights::none() };
    if !opened.owns_the_same_as(caller) {
        return None;
    }
    let address = SessionAddress::parse(&row.endpoint)?;
    Some(SessionOrigin { id, address, owner: Arc::new(caller.clone()), created: row.created })
}

/// The client that a row describes.
pub(super) fn client(row: &McpSession) -> ClientInfo {
    ClientInfo {
        revision: Revision::parse(&row.revision).unwrap_or(Revision::NEWEST_LEGACY),
        implementation: Bytes::copy_from_slice(&row.implementation),
        capabilities: Capabilities::new(Bytes::copy_from_slice(&row.capabilities)),
    }
}

/// Restores the client and the settings from the previous process.
pub(super) fn restore(session: &Session, row: &McpSession, settings: &FrontendSettings) {
    session.set_client(client(row), settings);
    if row.state.initialized {
        session.set_initialized();
    }
    session.restore(row.state.log_level.as_deref().and_then(Level::parse), row.state.subscriptions.clone());
}

/// A session, for status pages.
pub(super) fn status(session: &Session, now: Timestamp) -> SessionStatus {
    let idle = if session.is_active() { 0 } else { now.since(session.last_seen()).as_secs() };
    SessionStatus {
        id: Some(session.id.as_str().chars().take(8).collect()),
        user: session.owner.user.to_string(),
        key_name: None,
        client: session.client().map(|client| client.display()).unwrap_or_default(),
        endpoint: session.address.endpoint.to_string(),
        protocol_version: session.client().map(|client| client.revision.to_string()).unwrap_or_default(),
        idle_seconds: idle,
        rights: Some(session.owner.rights.clone()),
        grant: session.owner.grant.clone(),
    }
}
