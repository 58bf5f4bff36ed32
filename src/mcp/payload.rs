//! The parameters or result of one message: raw JSON, tagged with its version and with the server that wrote it.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use bytestring::ByteString;
use memchr::{memchr2, memmem::Finder};
use serde::{Deserialize, Serialize};

use super::{
    IndexedJson, Revision, ServerOrigin,
    json::{self, At, Edits, Found, Object},
    lone_surrogates,
};
use crate::support::off_worker::debug_assert_off_worker;

/// The `params` or `result` of one message. It is read through views and edited member by member, but never decoded and
/// encoded again as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The version that it is written in.
    pub revision: Revision,
    origin: Option<ServerOrigin>,
    /// The `Implementation` of the server that wrote it, as JSON text; `None` if unknown.
    server: Option<Arc<str>>,
    /// The form of the tool's output schema as the client sees it.
    schema: OutputSchema,
    json: IndexedJson,
}

/// The form of a tool's output schema as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputSchema {
    /// As the server wrote it, or not at all.
    #[default]
    AsWritten,
    /// As the member `result` of an object, because its root is not an object: see
    /// [`wrapped_tools`](super::translate::wrapped_tools).
    Wrapped,
}

impl Payload {
    /// Creates a payload from received text. `json` must be one JSON value, which the parser of the message has
    /// checked, or empty if the member was absent.
    pub fn new(revision: Revision, json: Bytes) -> Self {
        Self::of_params(revision, json.into())
    }

    /// The parameters of a message.
    pub const fn of_params(revision: Revision, params: IndexedJson) -> Self {
        Self { revision, origin: None, server: None, schema: OutputSchema::AsWritten, json: params }
    }

    /// The same payload, marked as written by this server. If a client's version cannot express it, the report names
    /// the server.
    #[must_use]
    pub fn written_by(self, origin: &ServerOrigin) -> Self {
        Self { origin: Some(origin.clone()), ..self }
    }

    /// The same payload, marked with the `Implementation` of its server, as JSON text. A result for a client of
    /// 2026-07-28 names that server unless it already names one. Edits keep the mark.
    #[must_use]
    pub fn of_server(self, implementation: Arc<str>) -> Self {
        Self { server: Some(implementation), ..self }
    }

    /// The same result of a tool, for legacy clients that see its output schema wrapped
    /// ([`wrapped_tools`](super::translate::wrapped_tools)): for them its structured content is wrapped too. Edits keep
    /// the mark.
    #[must_use]
    pub fn of_wrapped_output(self) -> Self {
        Self { schema: OutputSchema::Wrapped, ..self }
    }

    /// The form of the tool's output schema as the client sees it.
    pub const fn schema(&self) -> OutputSchema {
        self.schema
    }

    /// The server that wrote it; `None` if a client or the gateway wrote it.
    pub const fn origin(&self) -> Option<&ServerOrigin> {
        self.origin.as_ref()
    }

    /// The `Implementation` of the server that wrote it, as JSON text; `None` if the payload is not marked.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The absent payload: a message without `params`.
    pub const fn absent(revision: Revision) -> Self {
        Self::new_static(revision, "")
    }

    /// The empty object: an `EmptyResult` in the legacy versions.
    pub const fn empty(revision: Revision) -> Self {
        Self::new_static(revision, "{}")
    }

    /// Serializes a value of the gateway.
    ///
    /// # Panics
    ///
    /// If `value` contains a map whose keys are not strings.
    #[expect(clippy::expect_used, reason = "nothing else fails when a value becomes a text in memory")]
    pub fn of<T: Serialize>(revision: Revision, value: &T) -> Self {
        Self::new(revision, serde_json::to_vec(value).expect("its maps have texts as keys").into())
    }

    const fn new_static(revision: Revision, json: &'static str) -> Self {
        Self::of_params(revision, IndexedJson::new(ByteString::from_static(json)))
    }

    /// The same payload with U+FFFD in place of unpaired surrogates. For lists that combine many servers and go to many
    /// clients: a strict parser refuses the whole text because of a single one.
    #[must_use]
    pub fn with_whole_characters(self) -> Self {
        match lone_surrogates::replaced(self.json()) {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => Self { json: Bytes::from(text).into(), ..self },
        }
    }

    /// The JSON text; empty if the payload is absent.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The JSON text.
    pub fn into_json(self) -> Bytes {
        self.json.into_text()
    }

    /// The JSON text with the known positions of its members.
    pub const fn indexed(&self) -> &IndexedJson {
        &self.json
    }

    /// The JSON text with the known positions of its members, as the parameters of a message.
    pub fn into_params(self) -> IndexedJson {
        self.json
    }

    /// True if there is no payload.
    pub fn is_absent(&self) -> bool {
        self.json.is_empty()
    }

    /// Reads the fields of `T`, borrowed if possible. `None` if they are missing or of another shape, or if the payload
    /// is not an object.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        debug_assert_off_worker(self.json.len());
        // serde reads structures from arrays too
        serde_json::from_slice(&self.json).ok().filter(|_| json::is_object(&*self.json))
    }

    /// The members, if the payload is an object.
    pub fn object(&self) -> Option<Object<'_>> {
        Object::parse(&self.json)
    }

    /// The text of the member `key`, the last one if the name is repeated.
    pub fn member(&self, key: &str) -> Option<&str> {
        self.json.member(key)
    }

    /// The structured content of a tool's result, in any version. A quick search for the name, or for an escape that
    /// could hide it, rules out nearly every result without it.
    pub fn structured_content(&self) -> Option<&str> {
        static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("structuredContent"));
        let may_be_there = memchr2(b'C', b'\\', &self.json).is_some() && json::may_hold(&self.json, &NAME);
        if may_be_there { self.member("structuredContent") } else { None }
    }

    /// The text of the member `key` of `_meta`, the last one if the name is repeated.
    pub fn meta_member(&self, key: &str) -> Option<&str> {
        self.json.meta_member(key)
    }

    /// The member `key`, if it is a string.
    pub fn string(&self, key: &str) -> Option<String> {
        self.member(key).and_then(json::unquote)
    }

    /// The same payload with the member `key` set to the JSON text `value`. Every other byte is kept.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        let json = if self.is_absent() { &Bytes::from_static(b"{}") } else { &*self.json };
        self.rewritten(json::with_member(json, key, value))
    }

    /// The same payload without the member `key`. Every other byte is kept.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        self.rewritten(json::without_member(&self.json, key))
    }

    /// The positions of all values that `path` leads to.
    pub fn find(&self, path: &[At]) -> Found {
        self.json.find(path)
    }

    /// The same payload with each value in `found` replaced by the JSON text `value`.
    #[must_use]
    pub fn replaced(self, found: &Found, value: &str) -> Self {
        Self { json: self.json.replaced(found, value), ..self }
    }

    /// The same payload with each value that one of `paths` leads to replaced by the result of `change`. It reads the
    /// text once, for any number of paths.
    #[must_use]
    pub fn rewrite<F>(&self, paths: &[&[At]], mut change: F) -> Self
    where
        F: FnMut(&str) -> Option<String>,
    {
        let mut edits = Edits::default();
        edits.visit_all(&self.json, paths, &mut change);
        self.rewritten(edits.apply(&self.json))
    }

    /// The same payload with another text.
    pub(super) fn rewritten(&self, json: Bytes) -> Self {
        let Self { revision, origin, server, schema, .. } = self;
        let (origin, server) = (origin.clone(), server.clone());
        Self { revision: *revision, origin, server, schema: *schema, json: json.into() }
    }

    /// The same payload, translated to `revision`: `json` is the new text.
    pub(super) fn in_revision(&self, revision: Revision, json: Bytes) -> Self {
        Self { revision, schema: OutputSchema::AsWritten, ..self.rewritten(json) }
    }
}
