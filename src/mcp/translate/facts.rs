//! The facts that translation rules need besides the payload.

use bytes::Bytes;

use crate::mcp::{ClientInfo, Method, Payload, json::draft::Draft, payload::OutputSchema, profile::Profile};

/// The facts that translation rules need besides the payload.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The kind of the payload.
    pub kind: Kind,
    /// The method of the message, or of the request that it answers.
    pub method: &'a Method,
    /// Treatment of members that the target does not define.
    pub profile: Profile,
    /// The form of the called tool's output schema as the client sees it. Not used if the payload itself is marked as
    /// wrapped ([`Payload::of_wrapped_output`]).
    pub schema: OutputSchema,
    /// The carrier of the backend's messages.
    pub transport: MessageCarrier,
    /// The URI of the `resources/read` request that the payload answers.
    pub uri: Option<&'a str>,
    /// The client. Its capabilities limit server requests, and each request for 2026-07-28 declares them. Without a
    /// client, a request for 2026-07-28 gets no envelope.
    pub client: Option<&'a ClientInfo>,
    /// The `Implementation` that a result for 2026-07-28 names. Not used if the payload itself is marked with its
    /// server ([`Payload::of_server`]).
    pub server: Option<&'a Bytes>,
    /// The request as its server sent it; `None` if the payload is not an answer to a server request.
    pub question: Option<&'a Payload>,
    /// The id of a URL elicitation for 2025-11-25; `None`: an id is derived from the request.
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
    /// A client's answer to a server's request.
    Answer,
}

/// The carrier of the backend's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageCarrier {
    Http,
    /// A channel: stdio or WebSocket.
    #[default]
    Channel,
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// Facts with only the kind and the method of a payload.
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

    /// True if the client declares `part` of the capability `name`.
    pub(super) fn client_has(&self, name: &str, part: &str) -> bool {
        let Some(client) = self.client else { return false };
        let text = String::from_utf8_lossy(client.capabilities.json());
        Draft::of(&text).get(name).is_some_and(|capability| capability.get(part).is_some())
    }
}
