//! `server/discover`: what a server says of itself, and what its answer says of its era (`translation` 2.7). Knows nothing
//! of what is done about it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;

use super::{Introduction, Peer, call::Asked, introduction::Versions, peer::SPOKEN};
use crate::{
    backend::{error::StartError, transport::TransportError},
    mcp::{ErrorObject, Event, Method, Outcome, Payload, Revision, json::Object},
    model::Delivery,
};

/// What the answer to `server/discover` tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// The server speaks 2026-07-28, and this is what it says.
    Modern(Introduction),
    /// It does not: why this is supposed.
    Legacy(String),
    /// The process ended instead of answering: how. An older one may do so.
    Ended(String),
    /// It speaks 2026-07-28, or a version after it, and cannot be used.
    Unusable(StartError),
    /// Nothing, since it could not be reached or failed.
    Nothing(StartError),
}

impl Peer {
    /// Asks the server what it says of itself, for no longer than `patience`.
    pub(crate) async fn discover(self: &Arc<Self>, patience: Duration) -> Told {
        match self.asked(patience).await {
            // it names a version that the gateway speaks, and was asked in that version: perhaps it has just begun
            Told::Unusable(StartError::Malformed(_)) => self.asked(patience).await,
            told => told,
        }
    }

    async fn asked(self: &Arc<Self>, patience: Duration) -> Told {
        let asked = Asked::of_gateway(Method::Discover, Payload::absent(Revision::NEWEST_LEGACY));
        let mut events = pin!(self.exchange(asked, patience));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Done(Outcome::Complete(result) | Outcome::InputRequired(result))) => {
                    return introduced(result);
                }
                Ok(Event::Done(Outcome::Failed(error))) if error.revision().is_some() => return refused(&error),
                Ok(Event::Done(Outcome::Failed(_))) if self.is_over() => return self.gone(&self.reason()),
                Ok(Event::Done(Outcome::Failed(_))) => return Told::Nothing(StartError::TimedOut(patience)),
                Ok(_) => {}
                Err(error) => return self.not_answered(error),
            }
        }
        self.gone(&self.reason())
    }

    /// A request that was not answered by a message. Over HTTP what the server does not understand it may refuse in any
    /// form, and what does not come from it is no evidence.
    fn not_answered(&self, error: TransportError) -> Told {
        match error {
            TransportError::Refused(reason) if self.about.abilities.delivery == Delivery::Exchange => {
                Told::Legacy(reason)
            }
            TransportError::Refused(reason) | TransportError::Denied(reason) => {
                Told::Nothing(StartError::Refused(reason))
            }
            TransportError::Gone(reason) | TransportError::Lost(reason) => self.gone(&reason),
            TransportError::Unreachable(reason) | TransportError::Unavailable(reason) => {
                Told::Nothing(StartError::Unreachable(reason))
            }
        }
    }

    /// A process that ends instead of answering may be of an older kind; a connection that breaks says nothing.
    fn gone(&self, reason: &str) -> Told {
        match self.about.abilities.delivery {
            Delivery::Channel => Told::Ended(reason.to_owned()),
            Delivery::Exchange => Told::Nothing(StartError::Unreachable(reason.to_owned())),
        }
    }
}

fn introduced(result: Payload) -> Told {
    match Introduction::versions(&result) {
        Some(Versions::Modern(revision)) => Told::Modern(Introduction::new(revision, result)),
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
                Told::Unusable(StartError::Malformed(format!("it refuses {SPOKEN}, which it says it speaks")))
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

/// The versions in `error.data.supported`; `None` where it names none.
pub(crate) fn supported(error: &ErrorObject) -> Option<Vec<String>> {
    let object = Object::parse(error.json())?;
    let data = Object::parse(object.get("data")?.as_bytes())?;
    let names: Vec<String> = serde_json::from_str(data.get("supported")?).ok()?;
    (!names.is_empty()).then_some(names)
}

/// Why a server cannot be used that offers these versions alone.
pub(crate) fn incompatible(supported: Vec<String>) -> StartError {
    let versions = supported.join(", ");
    let reason =
        format!("the server speaks protocol {versions} only, which this gateway does not know; update one of the two");
    StartError::Incompatible { reason, supported }
}
