//! One call of one backend, under the backend's own names, using the data in its lists: parameters mirrored in headers
//! (2026-07-28), wrapped output schemas, tools that run only as tasks. First checks the parameters mirrored by the
//! client against the listed tool, then derives the ones for the server again.

use std::sync::Arc;

use serde_json::Value;

use super::{access::VisibleBackend, catalog::List};
use crate::{
    mcp::{
        Call, ErrorObject, Event, Feature, ListKind, Method, Outcome, Payload, Reply, Revision,
        large_messages::off_worker,
        mirrored_params::Mirror,
        pass_through::{self, Takeover},
    },
    model::BackendId,
};

/// A tool call to a server that may speak 2026-07-28.
struct BackendToolCall {
    seen: VisibleBackend,
    call: Call,
    name: String,
    /// Shows if the server may still report that it did not run the tool.
    stage: ToolCallStage,
}

/// Stage of a call that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolCallStage {
    /// The call was sent, and nothing has come back.
    Sent,
    /// The server has sent something, or the call was sent again.
    Begun,
}

/// Calls the backend. [Plain](VisibleBackend::plain_server) backends do not need this.
pub(crate) fn call(seen: &VisibleBackend, call: Call) -> Reply {
    if !seen.entry.catalog.mirrors_params() {
        return seen.entry.server.call(call);
    }
    if call.method == Method::ToolsCall
        && let Some(name) = call.params.string("name")
    {
        return BackendToolCall { seen: seen.clone(), call, name, stage: ToolCallStage::Sent }.reply();
    }
    let backend = seen.entry.id.clone();
    seen.entry.server.call(call).map(move |event| hide_envelope_fault(&backend, event))
}

/// A tool called by a client that mirrors some of its parameters.
pub(crate) struct MirroredTool {
    seen: VisibleBackend,
    shown: String,
    /// The tool's own name, unless it was shortened.
    own: String,
    mirror: Arc<Mirror>,
}

// === impl MirroredTool ===

impl MirroredTool {
    /// The tool of `seen` that a client calls by the name `shown`, and the parts of the call mirrored by the client's
    /// transport. `None` if the client mirrors nothing, or the backend has no tool with mirrored parameters.
    pub(crate) fn of(seen: &VisibleBackend, shown: &str, own: &str, mirror: Option<Arc<Mirror>>) -> Option<Self> {
        let mirror = mirror.filter(|_| seen.entry.catalog.may_mirror_params())?;
        Some(Self { seen: seen.clone(), shown: shown.to_owned(), own: own.to_owned(), mirror })
    }

    /// Checks with the cached list that the call matches what the client mirrored; `None` if no list is cached. The
    /// server decides about an unlisted tool.
    ///
    /// # Errors
    ///
    /// `-32020` if they differ.
    pub(crate) fn check_at_hand(&self, call: &Call) -> Option<Result<(), ErrorObject>> {
        let list = self.seen.entry.catalog.list(&call.context, ListKind::Tools).at_hand()?;
        Some(self.check_by(&list, call))
    }

    /// The same, but waits for a list. Without one the server decides.
    ///
    /// # Errors
    ///
    /// `-32020` if they differ.
    pub(crate) async fn check(&self, call: &Call) -> Result<(), ErrorObject> {
        match self.seen.entry.catalog.list(&call.context, ListKind::Tools).wait().await {
            Ok(list) => {
                off_worker(call.params.json().len()).await;
                self.check_by(&list, call)
            }
            Err(_) => Ok(()),
        }
    }

    fn check_by(&self, list: &List, call: &Call) -> Result<(), ErrorObject> {
        let name = list.unshorten(&self.shown).unwrap_or(&self.own);
        match list.mirrored(name) {
            // the call itself is refused, which reveals nothing
            Some(_) if !self.seen.shows_tool(name) => Ok(()),
            Some(mirrored) => mirrored.check(&arguments(&call.params), &self.mirror),
            None => Ok(()),
        }
    }
}

fn arguments(params: &Payload) -> Value {
    params.member("arguments").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn hide_envelope_fault(backend: &BackendId, event: Event) -> Event {
    match event {
        Event::Done(Outcome::Failed(error)) if error.is_envelope_fault() => {
            Event::Done(Outcome::Failed(hidden(backend, error)))
        }
        event => event,
    }
}

fn hidden(backend: &BackendId, error: ErrorObject) -> ErrorObject {
    tracing::warn!(server = %backend, %error, "a server refused what is around a call, and not the call");
    metrics::counter!("lockkeeper_gateway_leg_faults_total", "server" => backend.to_string()).increment(1);
    error.hidden().naming_backend(backend)
}

// === impl BackendToolCall ===

impl BackendToolCall {
    fn reply(mut self) -> Reply {
        if self.seen.entry.catalog.may_mirror_params() {
            self.call.context.mirror = self.at_hand().and_then(|list| self.mirrored_in(&list));
        }
        let reply = self.seen.entry.server.call(self.call.clone());
        pass_through::until(reply, self)
    }

    /// Sends the call again if its tool has changed; otherwise returns the error as the gateway's own.
    async fn sent_again(mut self, error: ErrorObject) -> Reply {
        if !self.mirrors_anew().await {
            return Reply::failed(hidden(&self.seen.entry.id, error));
        }
        let reply = self.seen.entry.server.call(self.call.clone());
        pass_through::until(reply, Self { stage: ToolCallStage::Begun, ..self })
    }

    /// The parameters of this call to mirror, according to the list.
    fn mirrored_in(&self, list: &List) -> Option<Arc<Mirror>> {
        let mirror = list.mirrored(&self.name)?.of_call(&arguments(&self.call.params));
        (!mirror.is_empty()).then(|| Arc::new(mirror))
    }

    /// Fetches the list again, because the tool has changed (2026-07-28, transports, *Client Behavior*). Returns true
    /// if the mirrored parameters differ now.
    async fn mirrors_anew(&mut self) -> bool {
        let list = self.seen.entry.catalog.renewed(&self.call.context, ListKind::Tools).await;
        off_worker(self.call.params.json().len()).await;
        let Some(mirror) = list.map(|list| self.mirrored_in(&list)) else { return false };
        let differs = mirror != self.call.context.mirror;
        self.call.context.mirror = mirror;
        differs
    }

    /// Marks the result of a tool whose output schema is wrapped for this client, so that the result is wrapped too
    /// (`translation` 3.3, STA).
    async fn marked(self, result: Payload) -> Reply {
        let is_wrapped = self.is_wrapped().await;
        off_worker(result.json().len()).await;
        Reply::complete(if is_wrapped { result.of_wrapped_output() } else { result })
    }

    /// True if the result may have to be marked.
    fn may_be_wrapped(&self, result: &Payload) -> bool {
        let has_any_output = |revision: Revision| revision.has(Feature::AnyOutput);
        let is_wrapped = has_any_output(result.revision) && !has_any_output(self.call.context.client.revision);
        is_wrapped && result.structured_content().is_some()
    }

    /// True if the list shows a wrapped schema. Waits for a list only if the cached one lacks the tool.
    async fn is_wrapped(&self) -> bool {
        if let Some(wrapped) = self.at_hand().and_then(|list| list.wraps_output_of(&self.name)) {
            return wrapped;
        }
        let lookup = self.seen.entry.catalog.list(&self.call.context, ListKind::Tools);
        lookup.wait().await.is_ok_and(|list| list.wraps_output_of(&self.name) == Some(true))
    }

    /// The tools as this client sees them, if they are cached.
    fn at_hand(&self) -> Option<Arc<List>> {
        self.seen.entry.catalog.list(&self.call.context, ListKind::Tools).at_hand()
    }
}

impl Takeover for BackendToolCall {
    fn takes_over_at(&mut self, event: &Event) -> bool {
        match event {
            Event::Done(Outcome::Complete(result)) => self.may_be_wrapped(result),
            Event::Done(Outcome::Failed(error)) => error.is_envelope_fault(),
            Event::Done(Outcome::InputRequired(_)) | Event::Notified(_) | Event::Asked(_) => {
                self.stage = ToolCallStage::Begun;
                false
            }
        }
    }

    fn take_over(self, event: Event, rest: Reply) -> Reply {
        match event {
            Event::Done(Outcome::Complete(result)) => Reply::later(self.marked(result)),
            // the server reports that it did not run the call
            Event::Done(Outcome::Failed(error))
                if self.stage == ToolCallStage::Sent && error.code() == ErrorObject::HEADER_MISMATCH =>
            {
                Reply::later(self.sent_again(error))
            }
            Event::Done(Outcome::Failed(error)) => Reply::failed(hidden(&self.seen.entry.id, error)),
            Event::Done(Outcome::InputRequired(_)) | Event::Notified(_) | Event::Asked(_) => rest,
        }
    }
}
