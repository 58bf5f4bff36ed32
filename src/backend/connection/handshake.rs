//! The handshake of legacy versions: `initialize`, its answer, `notifications/initialized`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{
    call::OutboundCall,
    discover::{incompatible, supported},
    server_info::{InfoSource, ServerInfo},
    state::ServerConnection,
};
use crate::{
    backend::{
        error::StartError,
        start::upgrade::TransportOffer,
        transport::{NotSent, ServerLocation, TransportError},
    },
    mcp::{
        ClientInfo, Era, ErrorObject, Event, Feature, IndexedJson, Message, Method, Outcome, Payload, Revision,
        json::Object,
    },
};

/// Delays between attempts to send `notifications/initialized` (`translation` 6.6).
const RETRIES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// Maximum wait until the server accepts `notifications/initialized`. After that the gateway uses the server anyway.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the connection to end when nothing can be sent any more: its end has the better reason.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Parameters of a completion for a prompt that no server has.
const COMPLETION_PROBE: &[u8] =
    br#"{"ref":{"type":"ref/prompt","name":"lockkeeper-probe"},"argument":{"name":"probe","value":""}}"#;
/// Maximum wait for the answer to the probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The gateway's offer in `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) revision: Revision,
    /// The version to assume if the answer names none that the gateway knows; `None` if there is none to assume.
    pub(crate) assumed: Option<Revision>,
    /// The client that the session is opened for.
    pub(crate) client: Arc<ClientInfo>,
}

#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// This version may work, on a fresh connection (`translation` 6.1, 6.3).
    Offer(Revision),
    /// The server cannot be used this way.
    Start(StartError),
}

struct Handshake<'a> {
    connection: &'a Arc<ServerConnection>,
}

/// Makes the handshake on a new connection. Nothing else is sent until the server has accepted
/// `notifications/initialized` or [`INITIALIZED_TIMEOUT`] is over (design rule 2).
pub(crate) async fn open(connection: &Arc<ServerConnection>, offer: &Offer) -> Result<(), HandshakeError> {
    let handshake = Handshake { connection };
    let info = handshake.initialize(offer).await?;
    connection.transport.negotiated(info.revision);
    // stored before `initialized` is sent: the server may send requests right after it
    connection.set_server(info);
    handshake.initialized().await?;
    connection.transport.opened();
    handshake.probe_completion().await;
    Ok(())
}

// === impl Handshake ===

impl Handshake<'_> {
    async fn initialize(&self, offer: &Offer) -> Result<ServerInfo, HandshakeError> {
        let connection = self.connection;
        let params = Payload::new(offer.revision, offer.params());
        // the caller's `start_timeout` applies, which covers more than this request
        let never = Duration::from_hours(24);
        let mut events = std::pin::pin!(connection.call(OutboundCall::handshake(params), never));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Done(Outcome::Complete(result))) => {
                    return read(result, offer, connection);
                }
                Ok(Event::Done(Outcome::Failed(error))) if connection.is_over() => {
                    tracing::debug!(%error, "the connection ended in the handshake");
                    return Err(StartError::Unreachable(connection.reason()).into());
                }
                Ok(Event::Done(Outcome::Failed(error))) => {
                    return Err(refused(&error, offer.revision, connection.transport.location()));
                }
                Ok(_) => {}
                Err(NotSent(reason)) => return Err(StartError::Unreachable(reason).into()),
            }
        }
        Err(StartError::Unreachable(connection.reason()).into())
    }

    /// Sends `notifications/initialized`, and repeats it after failures, which is allowed. If the server rejects it or
    /// stays silent, the gateway uses the server as if it had accepted.
    async fn initialized(&self) -> Result<(), StartError> {
        let deadline = Instant::now() + INITIALIZED_TIMEOUT;
        let mut waits = RETRIES.into_iter();
        loop {
            let message = Message::Notification { method: Method::Initialized, params: IndexedJson::default() };
            let (reason, is_reached) = match timeout_at(deadline, self.connection.transport.send(message)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(TransportError::Denied(reason))) => return Err(turned_down(&reason)),
                Ok(Err(TransportError::Gone(reason))) => return Err(self.gone(&reason).await),
                Ok(Err(TransportError::LoginRequired(reason))) => return Err(StartError::LoginRequired(reason)),
                Ok(Err(TransportError::Unreachable(reason))) => (reason, false),
                Ok(Err(
                    TransportError::Refused(reason)
                    | TransportError::Lost(reason)
                    | TransportError::Failed(reason)
                    | TransportError::Unavailable { reason, .. },
                )) => (reason, true),
                Err(_) => ("no answer in time".to_owned(), true),
            };
            sleep_until(waits.next().map_or(deadline, |wait| deadline.min(Instant::now() + wait))).await;
            if Instant::now() < deadline {
                continue;
            }
            if !is_reached {
                return Err(StartError::Unreachable(format!(
                    "`notifications/initialized` did not get through: {reason}"
                )));
            }
            tracing::warn!(
                server = %self.connection.context.backend, reason,
                "the server does not accept `notifications/initialized`; it is used without that"
            );
            return Ok(());
        }
    }

    /// The error if nothing can be sent any more. If the connection ends within [`END_TIMEOUT`], its end gives the
    /// reason.
    async fn gone(&self, reason: &str) -> StartError {
        match timeout(END_TIMEOUT, self.connection.over()).await {
            Ok(ended) => StartError::Unreachable(ended),
            Err(_) => turned_down(reason),
        }
    }

    /// Probes if the server completes arguments, in a version without a capability for it (`translation` 3.3, CMP). The
    /// error for an unknown method means no, any other answer means yes, and silence leaves it open.
    async fn probe_completion(&self) {
        let Some(server) = self.connection.server() else { return };
        if server.revision.has(Feature::CompletionsCapability)
            || server.declares("completions")
            || !(server.declares("prompts") || server.declares("resources"))
        {
            return;
        }
        let params = Payload::new(server.revision, Bytes::from_static(COMPLETION_PROBE));
        let call = OutboundCall::of_gateway(Method::Complete, params);
        let mut events = std::pin::pin!(self.connection.call(call, PROBE_TIMEOUT));
        while let Some(event) = events.next().await {
            let Ok(Event::Done(outcome)) = event else { continue };
            let unknown = match &outcome {
                Outcome::Failed(error) => error.code() == ErrorObject::METHOD_NOT_FOUND || error.revision().is_none(),
                _ => false,
            };
            let _ = server.completes.set(!unknown);
        }
    }
}

// === impl Offer ===

impl Offer {
    /// The parameters of `initialize`, with the client's own capabilities and name.
    fn params(&self) -> Bytes {
        let mut text = format!(r#"{{"protocolVersion":"{}","capabilities":"#, self.revision).into_bytes();
        let capabilities = &self.client.capabilities;
        text.extend_from_slice(match self.client.revision.era() {
            Era::Legacy => capabilities.json(),
            // the gateway handles tasks of the other era itself
            Era::Modern => capabilities.mirrored(),
        });
        text.extend_from_slice(br#","clientInfo":"#);
        text.extend_from_slice(&self.client.implementation);
        text.push(b'}');
        text.into()
    }
}

fn turned_down(reason: &str) -> StartError {
    StartError::Refused(format!("`notifications/initialized` was turned down: {reason}"))
}

/// Reads an `InitializeResult`. For an unknown version the gateway offers a lower one; it does not guess.
fn read(result: Payload, offer: &Offer, connection: &ServerConnection) -> Result<ServerInfo, HandshakeError> {
    let malformed = |what: &str| HandshakeError::from(StartError::Malformed(what.to_owned()));
    let object = Object::parse(result.json()).ok_or_else(|| malformed("the result is no object"))?;
    if let Some(offer) = TransportOffer::of(&object, connection.transport.location()) {
        return Err(StartError::Upgrade(offer).into());
    }
    let named = object.string("protocolVersion");
    if named.is_none() && offer.assumed.is_none() {
        return Err(malformed("`protocolVersion` is missing"));
    }
    if object.get("capabilities").is_none_or(|text| !text.starts_with('{')) {
        return Err(malformed("`capabilities` is missing"));
    }
    let version = named.unwrap_or_default();
    let known = Revision::parse(&version).filter(|revision| revision.era() == Era::Legacy);
    match known.or(offer.assumed) {
        Some(revision) => Ok(ServerInfo::new(InfoSource::Initialize, result, revision, &connection.context.backend)),
        None => Err(next_offer(offer.revision, &format!("it answered with `{version}`"))),
    }
}

/// Handles an error in answer to `initialize` (`translation` 6.3).
fn refused(error: &ErrorObject, offered: Revision, from: ServerLocation) -> HandshakeError {
    if let Some(offer) = TransportOffer::in_error(error, from) {
        return StartError::Upgrade(offer).into();
    }
    if error.requires_login() {
        return StartError::LoginRequired(error.message()).into();
    }
    let supported = supported(error).unwrap_or_default();
    let common = Revision::ALL.into_iter().rev().filter(|revision| revision.era() == Era::Legacy);
    match common
        .filter(|revision| *revision < offered)
        .find(|revision| supported.iter().any(|name| name == revision.as_str()))
    {
        Some(revision) => HandshakeError::Offer(revision),
        None if supported.iter().any(|name| Revision::parse(name).is_some_and(|known| known.era() == Era::Modern)) => {
            StartError::OtherEra(format!("the server speaks protocol {} and opens no session", supported.join(", ")))
                .into()
        }
        None if !supported.is_empty() => incompatible(supported).into(),
        None => StartError::Refused(format!("the server refused `initialize`: {error}")).into(),
    }
}

/// The next lower version, for a fresh connection (`translation` 6.1).
fn next_offer(offered: Revision, why: &str) -> HandshakeError {
    if let Some(lower) = Revision::ALL.into_iter().rev().find(|revision| *revision < offered) {
        return HandshakeError::Offer(lower);
    }
    let reason = format!(
        "the server speaks no protocol version that this gateway knows: offered {offered}, {why}; update one of the two"
    );
    StartError::Incompatible { reason, supported: Vec::new() }.into()
}

impl From<StartError> for HandshakeError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}
