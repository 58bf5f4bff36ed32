//! The facts that a rule needs beside the payload. Knows no rule.

use bytes::Bytes;

use crate::mcp::{ClientInfo, Method, Payload, json::draft::Draft, payload::OutputSchema, profile::Profile};

/// The facts that a rule needs beside the payload.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What the payload is.
    pub kind: Kind,
    /// The method that it belongs to: its own, or that of the request or question which it answers.
    pub method: &'a Method,
    /// What becomes of members that the target does not define.
    pub profile: Profile,
    /// How the output schema of the called tool was shown to the client, where the payload does not say itself that it was
    /// wrapped ([`Payload::of_wrapped_output`]).
    pub schema: OutputSchema,
    /// What carries the messages of the backend.
    pub transport: Transport,
    /// The URI that the answered `resources/read` asked for.
    pub uri: Option<&'a str>,
    /// The client: its capabilities bound what it can be asked, and are declared with each request of 2026-07-28. A request
    /// that is raised there without it gets no envelope.
    pub client: Option<&'a ClientInfo>,
    /// The `Implementation` that results toward 2026-07-28 are in the name of, where the payload does not say itself which
    /// server wrote it ([`Payload::of_server`]).
    pub server: Option<&'a Bytes>,
    /// The question as its server asked it, where the payload answers one.
    pub question: Option<&'a Payload>,
    /// The id to give to a URL elicitation toward 2025-11-25; absent, one is derived from the question.
    pub elicitation_id: Option<&'a str>,
}

/// The kind of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The parameters of what a client asks a server.
    Request,
    /// What a server answered.
    Result,
    /// The parameters of what a server tells its client.
    Notification,
    /// The parameters of what a client tells a server.
    ClientNotification,
    /// The parameters of what a server asks its client.
    Question,
    /// What a client answered to it.
    Answer,
}

/// The carrier of the backend's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// A channel: stdio, WebSocket.
    #[default]
    Channel,
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// What is known of a payload of this kind and method, and no more.
    pub fn new(kind: Kind, method: &'a Method) -> Self {
        Self {
            kind,
            method,
            profile: Profile::default(),
            schema: OutputSchema::default(),
            transport: Transport::default(),
            uri: None,
            client: None,
            server: None,
            question: None,
            elicitation_id: None,
        }
    }

    /// Whether the client declares the part `part` of the capability `name`.
    pub(super) fn client_has(&self, name: &str, part: &str) -> bool {
        let Some(client) = self.client else { return false };
        let text = String::from_utf8_lossy(client.capabilities.json());
        Draft::of(&text).get(name).is_some_and(|capability| capability.get(part).is_some())
    }
}
