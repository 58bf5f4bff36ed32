//! `server/discover`: a server's account of itself, and what its answer says of its era (`translation` 2.7). Knows nothing of
//! what is done about it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{
    call::OutboundCall,
    calls::CallKind,
    listen,
    server_info::{Account, ServerInfo},
    state::ServerConnection,
    versions::{Versions, incompatible, supported},
};
use crate::{
    backend::{error::StartError, transport::TransportError},
    mcp::{ErrorObject, Event, Method, Outcome, Payload, Revision},
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
