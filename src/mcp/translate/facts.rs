//! The facts that translation rules need in addition to the payload.

use bytes::Bytes;

use crate::mcp::{ClientInfo, Method, Payload, json::draft::Draft, payload::OutputSchema, profile::Profile};

/// The facts that a rule needs in addition to the payload.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The kind of the payload.
    pub kind: Kind,
    /// Its own method, or the method of the request that it answers.
    pub method: &'a Method,
    /// Treatment of members that the target does not define.
    pub profile: Profile,
    /// The form of the called tool's output schema at the client, unless the payload is marked as wrapped itself
    /// ([`Payload::of_wrapped_output`]).
    pub schema: OutputSchema,
    /// The transport of the backend.
    pub transport: MessageCarrier,
    /// The URI of the answered `resources/read`.
    pub uri: Option<&'a str>,
    /// The client: its capabilities limit server requests, and are declared with each request of 2026-07-28. A request
    /// that is raised without it gets no envelope.
    pub client: Option<&'a ClientInfo>,
    /// The `Implementation` for results toward 2026-07-28, unless the payload is marked with its server
    /// ([`Payload::of_server`]).
    pub server: Option<&'a Bytes>,
    /// The request as its server sent it, if the payload answers one.
    pub question: Option<&'a Payload>,
    /// The id of a URL elicitation toward 2025-11-25; absent, one is derived from the request.
    pub elicitation_id: Option<&'a str>,
}

/// The kind of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Parameters of a client's request to a server.
    Request,
    Result,
    /// Parameters of a server's notification.
    Notification,
    /// Parameters of a client's notification.
    ClientNotification,
    /// Parameters of a server's request to its client.
    ServerRequest,
    /// A client's answer to it.
    Answer,
}

/// The carrier of the backend's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageCarrier {
    Http,
    /// A channel: stdio, WebSocket.
    #[default]
    Channel,
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// Only the kind and the method of a payload.
    pub fn new(kind: Kind, method: &'a Method) -> Self {
        Self {
            kind,
            method,
            profile: Profile::default(),
            schema: OutputSchema::default(),
            transport: MessageCarrier::default(),
            uri: None,
            client: None,
            server: None,
            question: None,
            elicitation_id: None,
        }
    }

    /// True if the client declares the part `part` of the capability `name`.
    pub(super) fn client_has(&self, name: &str, part: &str) -> bool {
        let Some(client) = self.client else { return false };
        let text = String::from_utf8_lossy(client.capabilities.json());
        Draft::of(&text).get(name).is_some_and(|capability| capability.get(part).is_some())
    }
}
