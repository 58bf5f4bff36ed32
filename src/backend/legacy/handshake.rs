//! The handshake of the legacy versions: `initialize`, its answer, `notifications/initialized`.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::{sleep, timeout};

use super::{
    Session,
    call::{Asked, Kind},
    session::About,
};
use crate::{
    backend::{
        error::StartError,
        modern::discover::{incompatible, supported},
        transport::{Incoming, NotSent, Transport, TransportError},
    },
    crossing::tasks::ServerTasks,
    mcp::{
        ClientInfo, Era, ErrorObject, Event, Feature, Message, Method, Outcome, Payload, Revision, json,
        json::Object,
        meta,
        translate::{Profile, mirrored_capabilities},
    },
    model::BackendId,
    support::printable_name,
};

/// The waits before `notifications/initialized` is sent again (`translation` 6.6).
const RETRIES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];
/// How long one try of `notifications/initialized` may take.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(10);

/// A completion of something that no server has.
const COMPLETION_PROBE: &[u8] =
    br#"{"ref":{"type":"ref/prompt","name":"lockkeeper-probe"},"argument":{"name":"probe","value":""}}"#;
/// How long the answer to it may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is said in `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The version.
    pub(crate) revision: Revision,
    /// The version that is taken for spoken where the answer names none that is known.
    pub(crate) assumed: Option<Revision>,
    /// In whose name.
    pub(crate) client: Arc<ClientInfo>,
}

/// What the server answered to `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    /// The version that both speak from here on.
    pub(crate) revision: Revision,
    /// The server's `Implementation`; one that gives none gets one, for display (`translation` 6.3).
    pub(crate) implementation: Arc<str>,
    /// How it has tasks.
    pub(crate) tasks: ServerTasks,
    result: Bytes,
    /// Whether it completes arguments, where its version has no word for it and it was found out.
    completes: OnceLock<bool>,
}

/// How a handshake failed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// Another version may do, on a fresh connection (`translation` 6.1, 6.3).
    Offer(Revision),
    /// It failed.
    Start(StartError),
}

// === impl Session ===

impl Session {
    /// Opens a session over a fresh connection. Nothing but the handshake crosses before the server has accepted
    /// `notifications/initialized` (design rule 2).
    pub(crate) async fn open(
        about: About,
        offer: &Offer,
        transport: Arc<dyn Transport>,
        incoming: Incoming,
    ) -> Result<Arc<Self>, HandshakeError> {
        let session = Self::begin(about, transport, incoming);
        let abandoned = Abandoned(Some(&session));
        let greeting = session.initialize(offer).await?;
        session.transport.negotiated(greeting.revision);
        // kept before `initialized` is sent: the server may ask at once when it has it
        let _ = session.greeting.set(greeting);
        session.initialized().await?;
        session.transport.opened();
        session.probe_completion().await;
        abandoned.keep();
        Ok(session)
    }

    /// Finds out whether a server completes arguments whose version has no word for it (`translation` 3.3, CMP): one that
    /// does not know the method says so, and any other answer is of one that does. No answer is none.
    async fn probe_completion(self: &Arc<Self>) {
        let Some(greeting) = self.greeting() else { return };
        let declared = greeting.capabilities();
        let has = |name: &str| declared.get(name).is_some();
        if greeting.revision.has(Feature::CompletionsCapability)
            || has("completions")
            || !(has("prompts") || has("resources"))
        {
            return;
        }
        let params = Payload::new(greeting.revision, Bytes::from_static(COMPLETION_PROBE));
        let (method, profile) = (Method::Complete, Profile::default());
        let asked = Asked { profile, ..Asked::of_gateway(method, params) };
        let mut events = std::pin::pin!(self.request(asked, Kind::Client, PROBE_TIMEOUT));
        while let Some(event) = events.next().await {
            let Ok(Event::Done(outcome)) = event else { continue };
            let unknown = match &outcome {
                Outcome::Failed(error) => error.code() == ErrorObject::METHOD_NOT_FOUND || error.revision().is_none(),
                _ => false,
            };
            let _ = greeting.completes.set(!unknown);
        }
    }

    async fn initialize(self: &Arc<Self>, offer: &Offer) -> Result<Greeting, HandshakeError> {
        let params = Payload::new(offer.revision, offer.params());
        // bounded from outside by `start_timeout`, which covers more than this one request
        let never = Duration::from_hours(24);
        let mut events =
            std::pin::pin!(self.request(Asked::of_gateway(Method::Initialize, params), Kind::Handshake, never));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Done(Outcome::Complete(result))) => {
                    return Greeting::read(result.json(), offer, &self.about.backend);
                }
                Ok(Event::Done(Outcome::Failed(error))) if self.is_over() => {
                    tracing::debug!(%error, "the connection ended in the handshake");
                    return Err(StartError::Unreachable(self.reason()).into());
                }
                Ok(Event::Done(Outcome::Failed(error))) => return Err(refused(&error, offer.revision)),
                Ok(_) => {}
                Err(NotSent(reason)) => return Err(StartError::Unreachable(reason).into()),
            }
        }
        Err(StartError::Unreachable(self.reason()).into())
    }

    /// Tells the server that the session begins, again where it does not get through: it may be repeated.
    async fn initialized(&self) -> Result<(), StartError> {
        let mut waits = RETRIES.into_iter();
        loop {
            let message = Message::Notification { method: Method::Initialized, params: Bytes::new() };
            let reason = match timeout(INITIALIZED_TIMEOUT, self.transport.send(message)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(
                    TransportError::Refused(reason) | TransportError::Denied(reason) | TransportError::Gone(reason),
                )) => {
                    return Err(StartError::Refused(format!("`notifications/initialized` was turned down: {reason}")));
                }
                Ok(Err(
                    TransportError::Lost(reason)
                    | TransportError::Unavailable(reason)
                    | TransportError::Unreachable(reason),
                )) => reason,
                Err(_) => "no answer in time".to_owned(),
            };
            let Some(wait) = waits.next() else {
                return Err(StartError::Unreachable(format!(
                    "`notifications/initialized` did not get through: {reason}"
                )));
            };
            sleep(wait).await;
        }
    }
}

/// Ends a session whose handshake was not brought to its end.
struct Abandoned<'a>(Option<&'a Arc<Session>>);

impl Abandoned<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.end("its handshake failed");
        }
    }
}

// === impl Offer ===

impl Offer {
    /// The parameters of `initialize`: the client's own words, for the server to see whom it serves.
    fn params(&self) -> Bytes {
        let mut text = format!(r#"{{"protocolVersion":"{}","capabilities":"#, self.revision).into_bytes();
        let capabilities = self.client.capabilities.json();
        match self.client.revision.era() {
            Era::Legacy => text.extend_from_slice(capabilities),
            // tasks are the gateway's own business across the eras
            Era::Modern => text.extend_from_slice(&mirrored_capabilities(capabilities)),
        }
        text.extend_from_slice(br#","clientInfo":"#);
        text.extend_from_slice(&self.client.implementation);
        text.push(b'}');
        text.into()
    }
}

// === impl Greeting ===

impl Greeting {
    /// Reads an `InitializeResult`. A version that is not known is answered by a lower offer, never by a guess.
    fn read(result: &Bytes, offer: &Offer, backend: &BackendId) -> Result<Self, HandshakeError> {
        let malformed = |what: &str| HandshakeError::from(StartError::Malformed(what.to_owned()));
        let Some(object) = Object::parse(result) else { return Err(malformed("the result is no object")) };
        let named = object.string("protocolVersion");
        if named.is_none() && offer.assumed.is_none() {
            return Err(malformed("`protocolVersion` is missing"));
        }
        let Some(capabilities) = object.get("capabilities").filter(|text| text.starts_with('{')) else {
            return Err(malformed("`capabilities` is missing"));
        };
        let version = named.unwrap_or_default();
        let known = Revision::parse(&version).filter(|revision| revision.era() == Era::Legacy);
        match known.or(offer.assumed) {
            Some(revision) => {
                let given = object.get("serverInfo").filter(|text| text.starts_with('{'));
                let unnamed = || format!(r#"{{"name":"{backend}","version":"unknown"}}"#).into();
                let implementation = given.map_or_else(unnamed, Arc::from);
                let tasks = ServerTasks::of(revision, &Object::parse(capabilities.as_bytes()).unwrap_or_default());
                Ok(Self { revision, implementation, tasks, result: result.clone(), completes: OnceLock::new() })
            }
            None => Err(next_offer(offer.revision, &format!("it answered with `{version}`"))),
        }
    }

    /// What the server calls itself, `name version`, for people.
    pub(crate) fn server(&self) -> Option<String> {
        let info = Object::parse(Object::parse(&self.result)?.get("serverInfo")?.as_bytes())?;
        let text = format!("{} {}", info.string("name")?, info.string("version").unwrap_or_default());
        Some(printable_name(&text, 100))
    }

    /// The text of the server's `capabilities`.
    pub(crate) fn capabilities(&self) -> Object<'_> {
        let text = Object::parse(&self.result).and_then(|object| object.get("capabilities"));
        text.and_then(|text| Object::parse(text.as_bytes())).unwrap_or_default()
    }

    /// The answer to `server/discover`, in the form of 2026-07-28, every part as the server wrote it.
    pub(crate) fn discover(&self) -> Payload {
        let object = Object::parse(&self.result).unwrap_or_default();
        let declared = object.get("capabilities").unwrap_or("{}");
        let capabilities = if self.revision.has(Feature::CoreTasks) {
            Bytes::copy_from_slice(declared.as_bytes())
        } else {
            // what the version has not cannot be asked for
            json::without_member(&Bytes::copy_from_slice(declared.as_bytes()), "tasks")
        };
        let capabilities = if self.completes.get() == Some(&true) {
            json::with_member(&capabilities, "completions", "{}")
        } else {
            capabilities
        };
        let capabilities = String::from_utf8_lossy(&capabilities);
        let info = &self.implementation;
        let instructions = object.get("instructions").filter(|text| text.starts_with('"'));
        let instructions = instructions.map(|text| format!(r#","instructions":{text}"#)).unwrap_or_default();
        let told = object.get(meta::META).filter(|text| text.starts_with('{')).unwrap_or("{}");
        let told = Bytes::copy_from_slice(told.as_bytes());
        let told = json::with_member(&told, meta::SERVER_INFO, info);
        let text = format!(
            r#"{{"supportedVersions":["{}"],"capabilities":{capabilities}{instructions},"_meta":{}}}"#,
            self.revision,
            String::from_utf8_lossy(&told),
        );
        Payload::new(Revision::V2026_07_28, text.into())
    }
}

/// `initialize` was answered by an error (`translation` 6.3).
fn refused(error: &ErrorObject, offered: Revision) -> HandshakeError {
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
