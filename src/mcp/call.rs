//! A call: everything needed to serve one request, as in a self-contained request of 2026-07-28.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    CancelReason, Era, Feature, HeardEvent, LogLevel, Method, Payload, Reply, Revision, extensions,
    json::{Object, draft::Draft},
    meta,
    mirrored_params::Mirror,
    profile::Profile,
};
use crate::{
    model::{Caller, Requester},
    support::{Account, printable_name},
};

/// Answers calls: a backend, the gateway, or a scripted test double.
pub trait Server: Send + Sync {
    /// Serves one call. Nothing happens before the reply is polled. Dropping the reply cancels the call, all the way to
    /// the backend. The reply to a notification ends with an absent payload.
    fn call(&self, call: Call) -> Reply;

    /// Announces a client that waits for messages the server has not sent yet, and that may call the server next.
    fn expect(&self, client: &Context) {
        let _ = client;
    }
}

/// One call with all its context.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    pub params: Payload,
    /// The caller and the client.
    pub context: Context,
}

/// Caller and client of a call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    pub caller: Arc<Caller>,
    /// Account of the user; messages that wait for the caller are charged to it.
    pub account: Account,
    pub requester: Requester,
    /// The client itself.
    pub client: Arc<ClientInfo>,
    /// Parameters that the client's transport mirrored; `None` if it mirrors none. Behind the gateway's endpoint: the
    /// parameters to mirror toward the server, for any client version.
    pub mirror: Option<Arc<Mirror>>,
    /// Log messages that the client wants.
    pub level: LogLevel,
    /// Treatment of members that the server's version does not define.
    pub profile: Profile,
    /// Reason sent to the server if the call is cancelled.
    pub cancel_reason: CancelReason,
    /// Cancelled when the credential is revoked; `None` if nothing that depends on it outlives the request.
    pub revoked: Option<Arc<CancellationToken>>,
    /// The reason why the call has not reached its server yet.
    pub wait: WaitNotice,
    /// For a `subscriptions/listen` call: the single event to pass on; `None` for a call that gets all later events.
    pub heard: Option<HeardEvent>,
}

/// The reason why a call has not reached its server yet, for a layer that reports progress to the client. Clones share
/// it.
#[derive(Clone, Default)]
pub struct WaitNotice(Option<Arc<Mutex<Option<WaitText>>>>);

type WaitText = Box<dyn Fn() -> Option<String> + Send>;

/// The client's description of itself: from `initialize`, or from the envelope of a 2026-07-28 request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Protocol version used with the client.
    pub revision: Revision,
    /// Its `Implementation` object, as JSON.
    pub implementation: Bytes,
    pub capabilities: Capabilities,
}

/// A client's capabilities as JSON, compared only by what matters to a server.
#[derive(Debug, Clone)]
pub struct Capabilities {
    json: Bytes,
    key: String,
    /// Result of [`Capabilities::mirrored`]; computed once, since each request of 2026-07-28 needs it.
    mirrored: OnceLock<Bytes>,
}

// === impl Context ===

impl Context {
    /// The context for calls that the gateway makes itself and presents as `client`; `account` is charged for their
    /// memory.
    pub fn of_gateway(client: ClientInfo, account: Account) -> Self {
        Self {
            caller: Arc::new(Caller::gateway()),
            account,
            requester: Requester::Gateway,
            client: Arc::new(client),
            mirror: None,
            level: LogLevel::default(),
            profile: Profile::default(),
            cancel_reason: CancelReason::default(),
            revoked: None,
            wait: WaitNotice::default(),
            heard: None,
        }
    }
}

// === impl WaitNotice ===

impl WaitNotice {
    /// A notice with a reader; the default one has none.
    pub(crate) fn read() -> Self {
        Self(Some(Arc::default()))
    }

    /// True if it has a reader.
    pub(crate) const fn is_read(&self) -> bool {
        self.0.is_some()
    }

    /// Sets what the call waits for, as a sentence without a period; `None` once the wait is over. `text` must not
    /// contain the call's context, which contains the notice.
    pub(crate) fn set(&self, text: impl Fn() -> Option<String> + Send + 'static) {
        if let Some(notice) = &self.0 {
            *notice.lock() = Some(Box::new(text));
        }
    }

    /// The reason why the call is waiting now; `None` if it does not wait.
    pub(crate) fn text(&self) -> Option<String> {
        self.0.as_ref()?.lock().as_ref()?()
    }
}

impl fmt::Debug for WaitNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitNotice").field(&self.is_read()).finish()
    }
}

// === impl ClientInfo ===

impl ClientInfo {
    /// The gateway itself as a client, without capabilities and in the newest legacy version.
    pub fn gateway() -> Self {
        Self {
            revision: Revision::NEWEST_LEGACY,
            implementation: Self::gateway_implementation(),
            capabilities: Capabilities::none(),
        }
    }

    /// The gateway's own `Implementation` object.
    pub fn gateway_implementation() -> Bytes {
        Bytes::from_static(
            concat!(r#"{"name":"lockkeeper","title":"Lockkeeper","version":""#, env!("CARGO_PKG_VERSION"), "\"}")
                .as_bytes(),
        )
    }

    /// True if a server with sessions cannot tell the two clients apart.
    pub fn is_introduced_as(&self, other: &Self) -> bool {
        self.revision.era() == other.revision.era() && self.describes_itself_as(other)
    }

    /// True if both describe the same client, in any version.
    pub(crate) fn describes_itself_as(&self, other: &Self) -> bool {
        self.implementation == other.implementation && self.capabilities.json() == other.capabilities.json()
    }

    /// The client's own name; `None` if it gave none.
    pub fn name(&self) -> Option<String> {
        Object::parse(&self.implementation)?.string("name")
    }

    /// True if a call may be answered with a task: the client's version has tasks, or it declares the extension.
    pub fn takes_tasks(&self) -> bool {
        self.revision.has(Feature::CoreTasks)
            || self.revision.era() == Era::Modern && self.capabilities.extends(meta::TASKS_EXTENSION)
    }

    /// True for a client of 2026-07-28 that does not declare the tasks extension.
    pub fn lacks_tasks_extension(&self) -> bool {
        self.revision.era() == Era::Modern && !self.takes_tasks()
    }

    /// The same client, which executes no tasks (2025-11-25).
    #[must_use]
    pub fn without_tasks(&self) -> Self {
        Self { capabilities: self.capabilities.without(meta::CORE_TASKS), ..self.clone() }
    }

    /// The description that a server gets for several clients with the same capabilities (`translation` 4b.1). It names
    /// the gateway, which runs no tasks for them.
    #[must_use]
    pub fn of_many(&self) -> Self {
        let capabilities = self.capabilities.without(meta::CORE_TASKS).without_own_extensions();
        Self { capabilities, implementation: Self::gateway_implementation(), ..self.clone() }
    }

    /// The same client, without elicitation.
    #[must_use]
    pub fn without_elicitation(&self) -> Self {
        Self { capabilities: self.capabilities.without("elicitation"), ..self.clone() }
    }

    /// Name and version, for people; at most 100 characters.
    pub fn display(&self) -> String {
        let object = Object::parse(&self.implementation);
        let part = |key| object.as_ref().and_then(|object| object.string(key)).unwrap_or_default();
        let text = format!("{} {}", part("name"), part("version"));
        printable_name(&text, 100)
    }
}

// === impl Capabilities ===

impl Capabilities {
    /// No capabilities.
    pub fn none() -> Self {
        Self::new(Bytes::from_static(b"{}"))
    }

    /// The capabilities object that a client sent.
    pub fn new(json: Bytes) -> Self {
        let key = normalised(&json);
        Self { json, key, mirrored: OnceLock::new() }
    }

    /// True if the extension `name` is declared.
    pub fn extends(&self, name: &str) -> bool {
        let all = Object::parse(&self.json);
        let extensions = all.and_then(|all| Object::parse(all.get("extensions")?.as_bytes()));
        extensions.is_some_and(|extensions| extensions.get(name).is_some())
    }

    /// The same capabilities without `name`.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        if self.has(name) { Self::new(crate::mcp::json::without_member(&self.json, name)) } else { self.clone() }
    }

    /// True if only elicitation by URL is declared, which versions before 2025-11-25 would mistake for elicitation by
    /// form (`translation` 3.6).
    pub fn is_elicited_by_url_alone(&self) -> bool {
        self.key.split(' ').any(|part| part == "elicitation(url)")
    }

    /// True if the client can show the user a page (2025-11-25, elicitation).
    pub fn is_elicited_by_url(&self) -> bool {
        self.key.split(' ').any(|part| matches!(part, "elicitation(url)" | "elicitation(form,url)"))
    }

    /// The same capabilities, without extensions that the gateway implements itself.
    #[must_use]
    fn without_own_extensions(&self) -> Self {
        let text = String::from_utf8_lossy(&self.json).into_owned();
        let mut draft = Draft::of(&text);
        extensions::remove_own(&mut draft);
        if draft.is_changed() { Self::new(draft.text().into()) } else { self.clone() }
    }

    /// The object as written.
    pub const fn json(&self) -> &Bytes {
        &self.json
    }

    /// The capabilities for servers of any revision: the client's own, with two exceptions. The gateway handles tasks
    /// itself, and changes of roots cannot be reported across eras.
    pub fn mirrored(&self) -> &Bytes {
        self.mirrored.get_or_init(|| mirrored(&self.json))
    }

    /// The capabilities that allow server requests, in a canonical form: a key of sessions and catalogs, since servers
    /// show different tools to clients with different capabilities. Empty if there are none.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// True if it declares a capability for server requests.
    pub fn can_be_asked(&self) -> bool {
        !self.key.is_empty()
    }

    /// True if the capability `name` (`sampling`, `elicitation`, `roots`) is declared.
    pub fn has(&self, name: &str) -> bool {
        Object::parse(&self.json).is_some_and(|object| object.get(name).is_some())
    }
}

impl PartialEq for Capabilities {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Capabilities {}

fn mirrored(json: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(json);
    let mut mirrored = Draft::of(&text);
    mirrored.remove(meta::CORE_TASKS);
    if let Some(roots) = mirrored.edit("roots") {
        roots.remove("listChanged");
    }
    extensions::remove_own(&mut mirrored);
    if mirrored.is_changed() { mirrored.text().into() } else { json.clone() }
}

fn normalised(json: &Bytes) -> String {
    let Some(object) = Object::parse(json) else { return String::new() };
    let mut parts = Vec::new();
    for (name, details) in
        [("elicitation", ["form", "url"].as_slice()), ("roots", &[]), ("sampling", &["context", "tools"])]
    {
        let Some(value) = object.get(name) else { continue };
        let inner = Object::parse(value.as_bytes());
        let declared = |detail: &&&str| inner.as_ref().is_some_and(|inner| inner.get(detail).is_some());
        let details: Vec<&str> = details.iter().filter(declared).copied().collect();
        parts.push(format!("{name}({})", details.join(",")));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_the_same_where_a_server_would_see_them_so() {
        let of = |text: &'static str| Capabilities::new(Bytes::from_static(text.as_bytes()));
        let one = of(r#"{"sampling":{"tools":{}},"roots":{"listChanged":true},"x":1}"#);
        assert_eq!(one.key(), "roots() sampling(tools)");
        assert_eq!(one, of(r#"{ "roots":{}, "sampling":{"tools":{}} }"#));
        assert_ne!(one, of(r#"{"sampling":{}}"#));
        assert!(!of(r#"{"experimental":{}}"#).can_be_asked());
    }
}
