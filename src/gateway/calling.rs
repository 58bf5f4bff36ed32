//! One call of one backend, in the backend's own names: where the versions of client and server differ in more than
//! shapes, what the lists say is brought together with it. Knows nothing of routes.

use std::sync::Arc;

use super::{
    catalog::{Kind, List},
    gather::sole,
    only_tasks,
    set::Seen,
};
use crate::mcp::{Call, Context, Era, Event, Method, Outcome, Payload, Reply};

/// A call of a tool.
struct ToolCall {
    seen: Seen,
    context: Context,
    /// The tool's own name.
    name: String,
}

/// Calls the backend. What only servers of 2026-07-28 need costs calls of others nothing.
pub(crate) fn call(seen: &Seen, mut call: Call) -> Reply {
    let is_legacy = seen.mounted.catalog.is_legacy();
    if is_legacy || call.method != Method::ToolsCall {
        call.context.mirror = None;
        return only_tasks::call(seen, call);
    }
    let Some(name) = call.params.string("name") else { return only_tasks::call(seen, call) };
    let tool = ToolCall { seen: seen.clone(), context: call.context.clone(), name };
    let mut reply = only_tasks::call(seen, call);
    Reply::new(async_stream::stream! {
        while let Some(event) = reply.next_event().await {
            yield tool.marked(event).await;
        }
    })
}

// === impl ToolCall ===

impl ToolCall {
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
        let crosses = self.context.client.revision.era() == Era::Legacy && result.revision.era() == Era::Modern;
        crosses && result.object().is_some_and(|result| result.get("structuredContent").is_some())
    }

    async fn is_wrapped(&self) -> bool {
        self.listed(|list| list.wraps_output_of(&self.name)).await.unwrap_or(false)
    }

    /// What the tools as the client sees them tell. They are waited for only where what is at hand does not tell.
    async fn listed<T>(&self, read: impl Fn(&List) -> Option<T>) -> Option<T> {
        let asked = self.seen.mounted.catalog.list(&self.context, Kind::Tools);
        let at_hand: Option<Arc<List>> = asked.look.value.clone().or_else(|| asked.fallback.clone());
        match at_hand.and_then(|list| read(&list)) {
            Some(told) => Some(told),
            None => read(&*sole(asked).await.ok()?),
        }
    }
}
