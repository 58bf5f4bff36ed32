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

/// The `params` or `result` of one message. It is read by view and edited by key, never decoded and written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The version that it was written in.
    pub revision: Revision,
    origin: Option<ServerOrigin>,
    /// The `Implementation` of the server that wrote it.
    server: Option<Arc<str>>,
    /// The form of the output schema at the client.
    schema: OutputSchema,
    json: IndexedJson,
}

/// Form of a tool's output schema at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputSchema {
    /// As the server wrote it, or not at all.
    #[default]
    AsWritten,
    /// As the member `result` of an object, since its root is not an object: see
    /// [`wrapped_tools`](super::translate::wrapped_tools).
    Wrapped,
}

impl Payload {
    /// Creates a payload from the wire; `json` must be one JSON value, as the envelope's parser has ensured, or empty
    /// if the member was absent.
    pub fn new(revision: Revision, json: Bytes) -> Self {
        Self::of_params(revision, json.into())
    }

    /// The parameters of a message.
    pub const fn of_params(revision: Revision, params: IndexedJson) -> Self {
        Self { revision, origin: None, server: None, schema: OutputSchema::AsWritten, json: params }
    }

    /// The same payload, marked as written by this server: if it cannot be carried to a client, the report names the
    /// server.
    #[must_use]
    pub fn written_by(self, origin: &ServerOrigin) -> Self {
        Self { origin: Some(origin.clone()), ..self }
    }

    /// The same payload, marked with the `Implementation` of its server, as JSON text: for a client of 2026-07-28, a
    /// result gets that name unless it already has one. Edits keep the mark.
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

    /// The form of the output schema for the result.
    pub const fn schema(&self) -> OutputSchema {
        self.schema
    }

    /// The server that wrote it; `None` if a client or the gateway wrote it.
    pub const fn origin(&self) -> Option<&ServerOrigin> {
        self.origin.as_ref()
    }

    /// The `Implementation` of the server that wrote it, if it is marked.
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

    /// Writes a value of the gateway.
    ///
    /// # Panics
    ///
    /// If a map of `value` has keys that are not texts.
    #[expect(clippy::expect_used, reason = "nothing else fails when a value becomes a text in memory")]
    pub fn of<T: Serialize>(revision: Revision, value: &T) -> Self {
        Self::new(revision, serde_json::to_vec(value).expect("its maps have texts as keys").into())
    }

    const fn new_static(revision: Revision, json: &'static str) -> Self {
        Self::of_params(revision, IndexedJson::new(ByteString::from_static(json)))
    }

    /// The same payload with U+FFFD in place of halves of surrogate pairs, for texts that many clients read from many
    /// servers: strict parsers refuse a whole text because of one.
    #[must_use]
    pub fn with_whole_characters(self) -> Self {
        match lone_surrogates::replaced(self.json()) {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => Self { json: Bytes::from(text).into(), ..self },
        }
    }

    /// The JSON text; empty if absent.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The JSON text.
    pub fn into_json(self) -> Bytes {
        self.json.into_text()
    }

    /// The JSON text, with the known places of its members.
    pub const fn indexed(&self) -> &IndexedJson {
        &self.json
    }

    /// The same as the parameters of a message.
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

    /// The structured content of a tool's result, in any version. Looking for one letter, or for an escape, rules out
    /// nearly every result without it.
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

    /// The positions of the values at the end of `path`.
    pub fn find(&self, path: &[At]) -> Found {
        self.json.find(path)
    }

    /// The same payload with the JSON text `value` in the place of each value that was found in it.
    #[must_use]
    pub fn replaced(self, found: &Found, value: &str) -> Self {
        Self { json: self.json.replaced(found, value), ..self }
    }

    /// The same payload with the value at the end of each of `paths` replaced by the result of `change`. One pass over
    /// the text, for any number of paths.
    #[must_use]
    pub fn rewrite<F>(&self, paths: &[&[At]], mut change: F) -> Self
    where
        F: FnMut(&str) -> Option<String>,
    {
        let mut edits = Edits::default();
        edits.visit_all(&self.json, paths, &mut change);
        self.rewritten(edits.apply(&self.json))
    }

    /// The same payload in another text.
    pub(super) fn rewritten(&self, json: Bytes) -> Self {
        let Self { revision, origin, server, schema, .. } = self;
        let (origin, server) = (origin.clone(), server.clone());
        Self { revision: *revision, origin, server, schema: *schema, json: json.into() }
    }

    /// The same payload, now in the form of `revision`.
    pub(super) fn in_revision(&self, revision: Revision, json: Bytes) -> Self {
        Self { revision, schema: OutputSchema::AsWritten, ..self.rewritten(json) }
    }
}
