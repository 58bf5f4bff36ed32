//! `server/discover`: a server's account of itself, and what its answer says of its era (`translation` 2.7); the versions that
//! a server names in a result or in an error. Knows nothing of
//! what is done about it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{
    call::OutboundCall,
    calls::CallKind,
    listen,
    server_info::{Account, ServerInfo},
    state::ServerConnection,
};
use crate::{
    backend::{error::StartError, transport::TransportError},
    mcp::{Era, ErrorObject, Event, Method, Outcome, Payload, Revision, json::Object},
    model::{BackendId, Delivery},
};

/// What the answer to `server/discover` tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// The server speaks 2026-07-28, and this is what it says.
    Modern(ServerInfo),
    /// It does not: why this is supposed.
    Legacy(String),
    /// The process ended instead of answering: how. An older one may do so.
    Ended(String),
    /// It speaks 2026-07-28, or a version after it, and cannot be used.
    Unusable(StartError),
    /// Nothing, since it could not be reached or failed.
    Nothing(StartError),
}

/// Takes the server's account of itself, and begins to listen if it is the first.
pub(crate) fn introduced(connection: &Arc<ServerConnection>, info: ServerInfo) {
    let is_first = connection.set_server(info);
    let Some(listening) = connection.listening() else { return };
    if is_first {
        let (listening, connection) = (Arc::clone(listening), Arc::clone(connection));
        let (tasks, end) = (connection.about.tasks.clone(), connection.end.token().clone());
        tasks.spawn(async move {
            end.run_until_cancelled(listen::run(connection, listening)).await;
        });
    } else {
        // it may have other things to tell now
        listening.want_anew();
    }
}

/// Asks the server for its account of itself, for no longer than `timeout`.
pub(crate) async fn discover(connection: &Arc<ServerConnection>, timeout: Duration) -> Told {
    match ask(connection, timeout).await {
        // it names a version that the gateway speaks, and was asked in that version: perhaps it has just begun
        Told::Unusable(StartError::Malformed(_)) => ask(connection, timeout).await,
        told => told,
    }
}

async fn ask(connection: &Arc<ServerConnection>, timeout: Duration) -> Told {
    let call = OutboundCall::of_gateway(Method::Discover, Payload::absent(Revision::NEWEST_LEGACY));
    let mut events = pin!(connection.exchange(call, CallKind::Plain, timeout));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Done(Outcome::Complete(result) | Outcome::InputRequired(result))) => {
                return read(result, &connection.about.backend);
            }
            Ok(Event::Done(Outcome::Failed(error))) if error.revision().is_some() => return refused(&error),
            Ok(Event::Done(Outcome::Failed(_))) if connection.is_over() => break,
            Ok(Event::Done(Outcome::Failed(_))) => return Told::Nothing(StartError::TimedOut(timeout)),
            Ok(_) => {}
            Err(error) => return not_answered(connection.about.abilities.delivery, error),
        }
    }
    gone(connection.about.abilities.delivery, connection.reason())
}

/// A request that was not answered by a message. On an exchange of its own the server may refuse in any form what it does
/// not understand, and what does not come from it is no evidence.
fn not_answered(delivery: Delivery, error: TransportError) -> Told {
    match error {
        TransportError::Refused(reason) if delivery == Delivery::Exchange => Told::Legacy(reason),
        TransportError::Refused(reason) | TransportError::Denied(reason) => Told::Nothing(StartError::Refused(reason)),
        TransportError::Gone(reason) | TransportError::Lost(reason) => gone(delivery, reason),
        TransportError::Unreachable(reason) | TransportError::Unavailable(reason) => {
            Told::Nothing(StartError::Unreachable(reason))
        }
    }
}

/// A channel that ends instead of an answer may be of an older server; an exchange that breaks says nothing.
fn gone(delivery: Delivery, reason: String) -> Told {
    match delivery {
        Delivery::Channel => Told::Ended(reason),
        Delivery::Exchange => Told::Nothing(StartError::Unreachable(reason)),
    }
}

fn read(result: Payload, backend: &BackendId) -> Told {
    match Versions::of(&result) {
        Some(Versions::Modern(revision)) => {
            Told::Modern(ServerInfo::new(revision, (Account::Discover, result), backend))
        }
        Some(Versions::Legacy) => Told::Legacy("it names versions with a handshake alone".to_owned()),
        Some(Versions::Foreign(versions)) => Told::Unusable(incompatible(versions)),
        None => Told::Legacy("it answers `server/discover` with something else".to_owned()),
    }
}

/// An error is of an older server, whatever its code, unless it is one that 2026-07-28 alone has.
fn refused(error: &ErrorObject) -> Told {
    match (error.code(), supported(error)) {
        (ErrorObject::UNSUPPORTED_VERSION, Some(names)) => match Versions::among(&names) {
            Versions::Modern(_) => {
                Told::Unusable(StartError::Malformed("it refuses 2026-07-28, which it says it speaks".to_owned()))
            }
            Versions::Legacy => Told::Legacy("it names versions with a handshake alone".to_owned()),
            Versions::Foreign(versions) => Told::Unusable(incompatible(versions)),
        },
        (ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY, _) => {
            Told::Unusable(StartError::Refused(format!("the server refused `server/discover`: {error}")))
        }
        _ => Told::Legacy(error.to_string()),
    }
}

/// The versions that a `DiscoverResult` names, as far as they matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Versions {
    /// One in which requests stand alone is common.
    Modern(Revision),
    /// None such, but one with a handshake.
    Legacy,
    /// None that the gateway speaks: those that the server named.
    Foreign(Vec<String>),
}

impl Versions {
    /// What these names say.
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

    /// The versions in `result`; `None` if it is no `DiscoverResult`.
    pub(super) fn of(result: &Payload) -> Option<Self> {
        let object = result.object()?;
        let names: Vec<String> = serde_json::from_str(object.get("supportedVersions")?).ok()?;
        Some(Self::among(&names))
    }
}

/// The versions in `error.data.supported`; `None` where it names none.
pub(super) fn supported(error: &ErrorObject) -> Option<Vec<String>> {
    let object = Object::parse(error.json())?;
    let data = Object::parse(object.get("data")?.as_bytes())?;
    let names: Vec<String> = serde_json::from_str(data.get("supported")?).ok()?;
    (!names.is_empty()).then_some(names)
}

/// Why a server cannot be used that offers these versions alone.
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
    fn the_newest_common_version_is_taken() {
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
