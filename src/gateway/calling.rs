//! One call of one backend, in the backend's own names: where the versions of client and server differ in more than
//! shapes, what the lists say is brought together with it. Knows nothing of routes.

use std::sync::Arc;

use super::{
    catalog::{Kind, List},
    gather::sole,
    mirrored, only_tasks,
    set::Seen,
};
use crate::{
    mcp::{Call, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, mirrored::Mirror},
    model::BackendId,
};

/// A call of a tool of a server that may be one of 2026-07-28.
struct ToolCall {
    seen: Seen,
    call: Call,
    /// The tool's own name.
    name: String,
}

/// Calls the backend. What only servers of 2026-07-28 need costs calls of others nothing.
pub(crate) fn call(seen: &Seen, mut call: Call) -> Reply {
    call.context.mirror = None;
    if seen.mounted.catalog.is_legacy() {
        return only_tasks::call(seen, call);
    }
    let name = if call.method == Method::ToolsCall { call.params.string("name") } else { None };
    if let Some(name) = name {
        return ToolCall { seen: seen.clone(), call, name }.reply();
    }
    let backend = seen.mounted.id.clone();
    only_tasks::call(seen, call).map(move |event| without_leg_fault(&backend, event))
}

/// The same event; what only the gateway can mend is told as its fault (`translation` 2.3).
fn without_leg_fault(backend: &BackendId, event: Event) -> Event {
    match event {
        Event::Done(Outcome::Failed(error)) if error.is_leg_fault() => {
            tracing::warn!(%backend, %error, "a server refused what is around a call, and not the call");
            metrics::counter!("lockkeeper_gateway_leg_faults_total", "backend" => backend.to_string()).increment(1);
            Event::Done(Outcome::Failed(error.hidden().naming_backend(backend)))
        }
        event => event,
    }
}

/// Whether the server says that the headers do not mirror the call. It has not run then.
fn mismatches(event: Option<&Event>) -> bool {
    let Some(Event::Done(Outcome::Failed(error))) = event else { return false };
    error.is_leg_fault() && error.code() == ErrorObject::HEADER_MISMATCH
}

// === impl ToolCall ===

impl ToolCall {
    fn reply(mut self) -> Reply {
        self.call.context.mirror = self.at_hand().and_then(|list| self.mirrored_in(&list));
        let mut reply = only_tasks::call(&self.seen, self.call.clone());
        Reply::new(async_stream::stream! {
            let mut next = reply.next_event().await;
            if mismatches(next.as_ref()) && self.mirrors_anew().await {
                reply = only_tasks::call(&self.seen, self.call.clone());
                next = reply.next_event().await;
            }
            while let Some(event) = next {
                yield self.marked(without_leg_fault(&self.seen.mounted.id, event)).await;
                next = reply.next_event().await;
            }
        })
    }

    /// What is to be mirrored of this call, as far as this list tells.
    fn mirrored_in(&self, list: &List) -> Option<Arc<Mirror>> {
        mirrored::of_call(list, &self.name, &self.call.params)
    }

    /// Asks what the tool is now, since it is another than it was at hand (2026-07-28, transports, *Client Behavior*);
    /// whether that changes what is mirrored.
    async fn mirrors_anew(&mut self) -> bool {
        let list = self.seen.mounted.catalog.renewed(&self.call.context, Kind::Tools).await;
        let Some(mirror) = list.map(|list| self.mirrored_in(&list)) else { return false };
        let differs = mirror != self.call.context.mirror;
        self.call.context.mirror = mirror;
        differs
    }

    /// The same event; a result of a tool whose output schema is shown wrapped to this client is marked, so that it is
    /// wrapped too (`translation` 3.3, STA).
    async fn marked(&self, event: Event) -> Event {
        match event {
            Event::Done(Outcome::Complete(result)) if self.may_be_wrapped(&result) && self.is_wrapped().await => {
                Event::Done(Outcome::Complete(result.of_wrapped_output()))
            }
            event => event,
        }
    }

    /// Whether the mark would mean anything.
    fn may_be_wrapped(&self, result: &Payload) -> bool {
        let crosses = self.call.context.client.revision.era() == Era::Legacy && result.revision.era() == Era::Modern;
        crosses && result.object().is_some_and(|result| result.get("structuredContent").is_some())
    }

    /// Whether the list says so. It is waited for only where what is at hand does not tell.
    async fn is_wrapped(&self) -> bool {
        if let Some(wrapped) = self.at_hand().and_then(|list| list.wraps_output_of(&self.name)) {
            return wrapped;
        }
        let asked = self.seen.mounted.catalog.list(&self.call.context, Kind::Tools);
        sole(asked).await.is_ok_and(|list| list.wraps_output_of(&self.name) == Some(true))
    }

    /// The tools as this client sees them, where they are known.
    fn at_hand(&self) -> Option<Arc<List>> {
        let asked = self.seen.mounted.catalog.list(&self.call.context, Kind::Tools);
        asked.look.value.or(asked.fallback)
    }
}
