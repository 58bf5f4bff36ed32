//! Server information: the `InitializeResult` of the handshake, or the `DiscoverResult`.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    crossing::tasks::ServerTasks,
    mcp::{
        Payload, Revision,
        json::{self, Object, draft::Draft},
        lifecycle, meta,
    },
    model::BackendId,
    support::printable_name,
};

/// Minimum and maximum lifetime of a `DiscoverResult`. A `ttlMs` outside of this range is clamped (2026-07-28,
/// caching).
const FRESH: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

#[derive(Debug)]
pub(crate) struct ServerInfo {
    /// The version in use on the connection.
    pub(crate) revision: Revision,
    /// The server's `Implementation`, with a generated name if it has none (`translation` 6.3).
    pub(crate) implementation: Arc<str>,
    source: InfoSource,
    latest: Mutex<Latest>,
    /// True if the server completes arguments. Set by a probe if its version has no capability for that.
    pub(super) completes: OnceLock<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InfoSource {
    /// `InitializeResult`: valid as long as the connection.
    Initialize,
    /// `DiscoverResult`: valid for a limited time, since the server may be replaced unnoticed.
    Discover,
}

#[derive(Debug, Clone)]
struct Latest {
    result: Payload,
    /// The time when the result arrived.
    at: Instant,
    /// How the server handles tasks.
    tasks: ServerTasks,
    /// True if the server sends log messages.
    logs: bool,
}

/// Server information for status displays.
#[derive(Debug, Clone)]
pub(crate) struct ServerSummary {
    /// The version in use on the connection.
    pub(crate) revision: Revision,
    /// Superseded versions and deprecated features in use.
    pub(crate) notices: Vec<String>,
    /// Name and version, separated by a space; `None` if the server gave none.
    pub(crate) server: Option<String>,
}

impl ServerInfo {
    /// Reads the `result` of a server that speaks `revision`.
    pub(super) fn new(source: InfoSource, result: Payload, revision: Revision, backend: &BackendId) -> Self {
        let given = source.implementation(&result);
        let implementation = given.unwrap_or_else(|| unnamed(backend)).into();
        let declared = capabilities(&result);
        let (tasks, logs) = (ServerTasks::of(revision, &declared), declared.get("logging").is_some());
        let latest = Mutex::new(Latest { result, at: Instant::now(), tasks, logs });
        Self { revision, implementation, source, latest, completes: OnceLock::new() }
    }

    /// Replaces the result with a newer one of the same server.
    pub(super) fn renew(&self, other: Self) {
        *self.latest.lock() = other.latest.into_inner();
    }

    fn result(&self) -> Payload {
        self.latest.lock().result.clone()
    }

    /// False if a `DiscoverResult` has expired.
    pub(crate) fn is_fresh(&self) -> bool {
        if self.source == InfoSource::Initialize {
            return true;
        }
        let Latest { result, at, .. } = self.latest.lock().clone();
        let hint = result.object().and_then(|object| object.get("ttlMs")?.parse().ok());
        let hint = hint.map_or(FRESH.0, Duration::from_millis);
        at.elapsed() < hint.clamp(FRESH.0, FRESH.1)
    }

    pub(crate) fn summary(&self) -> ServerSummary {
        let result = self.result();
        let notices = lifecycle::notices(self.revision, &capabilities(&result));
        ServerSummary { revision: self.revision, notices, server: self.source.name(&result) }
    }

    /// True if the capability `name` is declared.
    pub(crate) fn declares(&self, name: &str) -> bool {
        capabilities(&self.result()).get(name).is_some()
    }

    /// True if the member `part` of the capability `name` is `true`.
    pub(crate) fn offers(&self, name: &str, part: &str) -> bool {
        let result = self.result();
        let capability = capabilities(&result).get(name).and_then(|text| Object::parse(text.as_bytes()));
        capability.is_some_and(|capability| capability.get(part) == Some("true"))
    }

    /// True if the server accepts a log level for the whole session.
    pub(crate) fn takes_level(&self) -> bool {
        self.source == InfoSource::Initialize && self.latest.lock().logs
    }

    /// How the server handles tasks, from its latest result.
    pub(crate) fn tasks(&self) -> ServerTasks {
        self.latest.lock().tasks
    }

    /// The result of `server/discover` for the gateway's clients. Every part stays as the server wrote it.
    pub(crate) fn discover(&self, backend: &BackendId) -> Payload {
        let result = self.result();
        match self.source {
            InfoSource::Initialize => self.discover_of_handshake(&result),
            InfoSource::Discover if self.source.name(&result).is_some() => result,
            InfoSource::Discover => named(self.revision, &result, backend),
        }
    }

    /// The result of `server/discover` for a server with a handshake, in the form of 2026-07-28.
    fn discover_of_handshake(&self, result: &Payload) -> Payload {
        let object = result.object().unwrap_or_default();
        let declared = Bytes::copy_from_slice(object.get("capabilities").unwrap_or("{}").as_bytes());
        // the gateway leaves out tasks if the server's version has none
        let capabilities = if self.tasks().has_tasks() { declared } else { json::without_member(&declared, "tasks") };
        let completes = self.completes.get() == Some(&true);
        let capabilities = if completes { json::with_member(&capabilities, "completions", "{}") } else { capabilities };
        let capabilities = String::from_utf8_lossy(&capabilities);
        let instructions = object.get("instructions").filter(|text| text.starts_with('"'));
        let instructions = instructions.map(|text| format!(r#","instructions":{text}"#)).unwrap_or_default();
        let meta = object.get(meta::META).filter(|text| text.starts_with('{')).unwrap_or("{}");
        let meta = Bytes::copy_from_slice(meta.as_bytes());
        let meta = json::with_member(&meta, meta::SERVER_INFO, &self.implementation);
        let text = format!(
            r#"{{"supportedVersions":["{}"],"capabilities":{capabilities}{instructions},"_meta":{}}}"#,
            self.revision,
            String::from_utf8_lossy(&meta),
        );
        Payload::new(Revision::NEWEST_MODERN, text.into())
    }
}

fn capabilities(result: &Payload) -> Object<'_> {
    let text = result.object().and_then(|object| object.get("capabilities"));
    text.and_then(|text| Object::parse(text.as_bytes())).unwrap_or_default()
}

fn unnamed(backend: &BackendId) -> String {
    format!(r#"{{"name":"{backend}","version":"unknown"}}"#)
}

impl Clone for ServerInfo {
    fn clone(&self) -> Self {
        let latest = Mutex::new(self.latest.lock().clone());
        Self { implementation: Arc::clone(&self.implementation), completes: self.completes.clone(), latest, ..*self }
    }
}

// === impl InfoSource ===

impl InfoSource {
    /// JSON of the server's `Implementation`; `None` if it sent none.
    fn implementation(self, result: &Payload) -> Option<String> {
        let object = result.object()?;
        let text = match self {
            Self::Initialize => object.get("serverInfo")?,
            Self::Discover => Object::parse(object.get(meta::META)?.as_bytes())?.get(meta::SERVER_INFO)?,
        };
        text.starts_with('{').then(|| text.to_owned())
    }

    /// Name and version of the server, printable and at most 100 characters.
    fn name(self, result: &Payload) -> Option<String> {
        let text = self.implementation(result)?;
        let info = Object::parse(text.as_bytes())?;
        let text = format!("{} {}", info.string("name")?, info.string("version").unwrap_or_default());
        Some(printable_name(&text, 100))
    }
}

/// A `DiscoverResult` with a name made from the backend's (`translation` 6.3).
fn named(revision: Revision, result: &Payload, backend: &BackendId) -> Payload {
    let text = String::from_utf8_lossy(result.json()).into_owned();
    let mut draft = Draft::of(&text);
    if let Some(meta) = draft.edit_object(meta::META) {
        meta.set(meta::SERVER_INFO, unnamed(backend));
    }
    let named = draft.text();
    Payload::new(revision, named.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn info(result: &serde_json::Value) -> ServerInfo {
        let revision = Revision::V2026_07_28;
        let backend = BackendId::parse("b1").unwrap();
        ServerInfo::new(InfoSource::Discover, Payload::of(revision, result), revision, &backend)
    }

    #[tokio::test(start_paused = true)]
    async fn server_information_is_valid_for_a_limited_time() {
        for (hint, seconds) in
            [(json!(0), 60), (json!(90_000), 90), (json!(99_999_999_999_u64), 3600), (json!("x"), 60)]
        {
            let info = info(&json!({ "ttlMs": hint }));
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(info.is_fresh(), "{hint}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!info.is_fresh(), "{hint}");
        }
    }

    #[tokio::test]
    async fn a_server_without_a_name_gets_one() {
        let info = info(&json!({ "capabilities": { "resources": { "subscribe": true } } }));
        assert!(info.offers("resources", "subscribe") && !info.declares("tools"));
        let discover = info.discover(&BackendId::parse("b1").unwrap());
        assert_eq!(InfoSource::Discover.name(&discover).as_deref(), Some("b1 unknown"));
    }
}
