//! `server/discover`: server information, the era that its answer shows (`translation` 2.7), and the versions that a
//! server lists in a result or an error.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{
    call::OutboundCall,
    server_info::{InfoSource, ServerInfo},
    state::ServerConnection,
};
use crate::{
    backend::{
        error::StartError,
        start::upgrade::TransportOffer,
        transport::{ServerLocation, TransportError},
    },
    mcp::{
        ClientInfo, Era, ErrorObject, Event, Method, Outcome, Payload, Revision, json::Object, translate::with_envelope,
    },
    model::{BackendId, Delivery},
};

/// Maximum wait for a server that is probed for its other era.
const OTHER_ERA_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) enum DiscoverOutcome {
    /// The server speaks 2026-07-28.
    Modern(ServerInfo),
    /// The server seems to be an older one, for this reason.
    Legacy(String),
    /// The process exited instead of answering, as older ones may; this is how.
    Ended(String),
    /// The server speaks 2026-07-28 or a later version, and cannot be used.
    Unusable(StartError),
    /// No evidence: the server could not be reached, or it failed.
    Nothing(StartError),
}

/// Stores new server information, and asks for subscriptions again if it differs.
pub(crate) fn apply_server_info(connection: &ServerConnection, info: ServerInfo) {
    if !connection.set_server(info) {
        // the server may support other subscriptions now
        connection.context.interests.touch(&connection.context.key);
    }
}

/// Sends `server/discover` and waits for its answer, for at most `timeout`.
pub(crate) async fn discover(connection: &Arc<ServerConnection>, timeout: Duration) -> DiscoverOutcome {
    match ask(connection, timeout).await {
        // the server rejected a request in a version that it lists: perhaps it has just started
        DiscoverOutcome::Unusable(StartError::Malformed(_)) => ask(connection, timeout).await,
        told => told,
    }
}

async fn ask(connection: &Arc<ServerConnection>, timeout: Duration) -> DiscoverOutcome {
    let call = OutboundCall::of_gateway(Method::Discover, Payload::absent(Revision::NEWEST_LEGACY));
    let mut events = pin!(connection.exchange(call, timeout));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Done(Outcome::Complete(result) | Outcome::InputRequired(result))) => {
                return read(result, &connection.context.backend);
            }
            Ok(Event::Done(Outcome::Failed(error))) if error.revision().is_some() => {
                return refused(&error, connection.transport.location());
            }
            Ok(Event::Done(Outcome::Failed(_))) if connection.is_over() => break,
            Ok(Event::Done(Outcome::Failed(_))) => return DiscoverOutcome::Nothing(StartError::TimedOut(timeout)),
            Ok(_) => {}
            Err(error) => return not_answered(connection.context.abilities.delivery, error),
        }
    }
    gone(connection.context.abilities.delivery, connection.reason())
}

/// Checks if a server with sessions also speaks 2026-07-28, with a request inside the session. The request has the
/// envelope of that version: a server of both eras answers it, or names the version in its refusal. The session is not
/// affected. Only servers of the newest version with sessions are probed: older ones may exit at an unknown method.
pub(crate) async fn speaks_other_era(connection: &Arc<ServerConnection>) -> bool {
    let revision = connection.revision();
    if revision != Revision::NEWEST_LEGACY || connection.context.abilities.delivery != Delivery::Channel {
        return false;
    }
    let params = with_envelope(Payload::empty(Revision::NEWEST_MODERN), &ClientInfo::gateway());
    let params = Payload::new(revision, params.json().clone());
    let call = OutboundCall::of_gateway(Method::Discover, params);
    let mut events = pin!(connection.exchange(call, OTHER_ERA_TIMEOUT));
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::Done(Outcome::Complete(result) | Outcome::InputRequired(result)) => {
                return matches!(Versions::of(&result), Some(Versions::Modern(_)));
            }
            Event::Done(Outcome::Failed(error)) => return error.revision().is_some() && names_modern(&error),
            Event::Notified(_) | Event::Asked(_) => {}
        }
    }
    false
}

/// True if an error lists a version without sessions, or is about the envelope and names such a version.
fn names_modern(error: &ErrorObject) -> bool {
    let is_listed = supported(error).is_some_and(|names| matches!(Versions::among(&names), Versions::Modern(_)));
    let names_it = || error.message().contains(Revision::NEWEST_MODERN.as_str());
    is_listed || (error.code() == ErrorObject::INVALID_REQUEST && names_it())
}

/// Outcome for a request without a JSON-RPC answer. An older server may refuse an HTTP request in any form; a failure
/// on the way there proves nothing.
fn not_answered(delivery: Delivery, error: TransportError) -> DiscoverOutcome {
    match error {
        TransportError::Refused(reason) if delivery == Delivery::Exchange => DiscoverOutcome::Legacy(reason),
        TransportError::Refused(reason) | TransportError::Denied(reason) => {
            DiscoverOutcome::Nothing(StartError::Refused(reason))
        }
        TransportError::LoginRequired(reason) => DiscoverOutcome::Nothing(StartError::LoginRequired(reason)),
        TransportError::Gone(reason) | TransportError::Lost(reason) => gone(delivery, reason),
        TransportError::Unreachable(reason)
        | TransportError::Failed(reason)
        | TransportError::Unavailable { reason, .. } => DiscoverOutcome::Nothing(StartError::Unreachable(reason)),
    }
}

/// A channel that closes instead of an answer may belong to an older server; a broken exchange proves nothing.
fn gone(delivery: Delivery, reason: String) -> DiscoverOutcome {
    match delivery {
        Delivery::Channel => DiscoverOutcome::Ended(reason),
        Delivery::Exchange => DiscoverOutcome::Nothing(StartError::Unreachable(reason)),
    }
}

fn read(result: Payload, backend: &BackendId) -> DiscoverOutcome {
    match Versions::of(&result) {
        Some(Versions::Modern(revision)) => {
            DiscoverOutcome::Modern(ServerInfo::new(InfoSource::Discover, result, revision, backend))
        }
        Some(Versions::Legacy) => DiscoverOutcome::Legacy("it names versions with a handshake alone".to_owned()),
        Some(Versions::Foreign(versions)) => DiscoverOutcome::Unusable(incompatible(versions)),
        None => DiscoverOutcome::Legacy("it answers `server/discover` with something else".to_owned()),
    }
}

/// Any error proves an older server, unless only 2026-07-28 defines its code.
fn refused(error: &ErrorObject, from: ServerLocation) -> DiscoverOutcome {
    if let Some(offer) = TransportOffer::in_error(error, from) {
        return DiscoverOutcome::Unusable(StartError::Upgrade(offer));
    }
    match (error.code(), supported(error)) {
        (ErrorObject::UNSUPPORTED_VERSION, Some(names)) => match Versions::among(&names) {
            Versions::Modern(_) => DiscoverOutcome::Unusable(StartError::Malformed(
                "it rejects 2026-07-28, although it lists that version".to_owned(),
            )),
            Versions::Legacy => DiscoverOutcome::Legacy("it names versions with a handshake alone".to_owned()),
            Versions::Foreign(versions) => DiscoverOutcome::Unusable(incompatible(versions)),
        },
        (ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY, _) => {
            DiscoverOutcome::Unusable(StartError::Refused(format!("the server refused `server/discover`: {error}")))
        }
        _ => DiscoverOutcome::Legacy(error.to_string()),
    }
}

/// Versions that a server lists, as far as they matter to the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Versions {
    /// The newest common version without sessions.
    Modern(Revision),
    /// All common versions have a handshake.
    Legacy,
    /// No common version; these are the server's.
    Foreign(Vec<String>),
}

impl Versions {
    /// Classifies these version names.
    pub(super) fn among(names: &[String]) -> Self {
        let common = |era| {
            let ours = Revision::ALL.into_iter().rev().filter(move |revision| revision.era() == era);
            ours.into_iter().find(|revision| names.iter().any(|name| name == revision.as_str()))
        };
        match (common(Era::Modern), common(Era::Legacy)) {
            (Some(revision), _) => Self::Modern(revision),
            (None, Some(_)) => Self::Legacy,
            (None, None) => Self::Foreign(names.to_vec()),
        }
    }

    /// The versions in `result`; `None` if it is not a `DiscoverResult`.
    pub(super) fn of(result: &Payload) -> Option<Self> {
        let object = result.object()?;
        let names: Vec<String> = serde_json::from_str(object.get("supportedVersions")?).ok()?;
        Some(Self::among(&names))
    }
}

/// The versions in `error.data.supported`; `None` if there are none.
pub(super) fn supported(error: &ErrorObject) -> Option<Vec<String>> {
    let object = Object::parse(error.json())?;
    let data = Object::parse(object.get("data")?.as_bytes())?;
    let names: Vec<String> = serde_json::from_str(data.get("supported")?).ok()?;
    (!names.is_empty()).then_some(names)
}

/// The error for a server that has only unknown versions.
pub(super) fn incompatible(supported: Vec<String>) -> StartError {
    let versions = supported.join(", ");
    let reason =
        format!("the server speaks protocol {versions} only, which this gateway does not know; update one of the two");
    StartError::Incompatible { reason, supported }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_common_version_is_selected() {
        let of = |names: &[&str]| {
            let result = json!({ "supportedVersions": names });
            Versions::of(&Payload::of(Revision::V2026_07_28, &result))
        };
        let modern = of(&["2025-11-25", "2026-07-28", "2099-01-01"]);
        assert_eq!(modern, Some(Versions::Modern(Revision::V2026_07_28)));
        assert_eq!(of(&["2099-01-01", "2025-06-18"]), Some(Versions::Legacy));
        assert_eq!(of(&["2099-01-01"]), Some(Versions::Foreign(vec!["2099-01-01".to_owned()])));
        assert_eq!(Versions::of(&Payload::empty(Revision::V2026_07_28)), None);
    }
}
