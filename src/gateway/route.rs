//! Routing of calls at an endpoint with merged backends, each to the one backend that it is for.

use std::sync::Arc;

use serde_json::json as data;

use super::{
    access::{Completed, ToolVerdict, VisibleBackend},
    backend_call::{self, MirroredTool},
    backends::NameView,
    names::{self, UriOwner},
    shared::GatewayState,
    uri_owner,
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, ListKind, Reply, Revision,
        json::{self, At, Found},
        large_messages::off_worker,
        methods::places,
        mirrored_params::Mirror,
    },
    model::Target,
};

/// A call to one server, with the position of the member that names the tool, prompt, resource or task.
pub(crate) struct AddressedCall {
    call: Call,
    found: Found,
    /// The form of the server's names at the client.
    view: NameView,
}

/// Routes `tools/call`, `prompts/get`, and completions of a prompt's arguments. First checks the parameters that the
/// client mirrored from a tool call.
pub(crate) fn by_name(
    shared: &Arc<GatewayState>,
    target: &Target,
    kind: ListKind,
    place: &'static [At],
    call: Call,
    mirror: Option<Arc<Mirror>>,
) -> Reply {
    let found = call.params.find(place);
    let Some(shown) = found.string(call.params.json()) else {
        return Reply::failed(ErrorObject::missing_string("name"));
    };
    let backends = shared.backends.load();
    let Some((seen, rest)) = names::split_name(&shown)
        .and_then(|(backend, rest)| Some((backends.visible(target, &call.context.caller, backend)?, rest)))
    else {
        return Reply::failed(unknown(kind, &shown));
    };
    if let Some(tool) = MirroredTool::of(&seen, &shown, rest, mirror) {
        match tool.check_at_hand(&call) {
            Some(Ok(())) => {}
            Some(Err(error)) => return Reply::failed(error),
            None => {
                let (shared, target) = (Arc::clone(shared), target.clone());
                return Reply::later(async move {
                    match tool.check(&call).await {
                        // looked up again, because the backends may have changed
                        Ok(()) => by_name(&shared, &target, kind, place, call, None),
                        Err(error) => Reply::failed(error),
                    }
                });
            }
        }
    }
    let addressed = AddressedCall { call, found, view: NameView::Merged };
    if !names::may_be_short(rest) {
        return addressed.send_if_open(&seen, kind, &shown, rest);
    }
    let rest = rest.to_owned();
    Reply::later(async move {
        let name = long(&seen, kind, &addressed.call.context, &shown).await.unwrap_or(rest);
        off_worker(addressed.call.params.json().len()).await;
        addressed.send_if_open(&seen, kind, &shown, &name)
    })
}

/// The full name for a shortened `shown`. Waits for the backend's list only if the cached one lacks it.
async fn long(seen: &VisibleBackend, kind: ListKind, context: &Context, shown: &str) -> Option<String> {
    let lookup = seen.entry.catalog.list(context, kind);
    if let Some(name) = lookup.at_hand().as_ref().and_then(|list| list.unshorten(shown)) {
        return Some(name.to_owned());
    }
    lookup.wait().await.ok()?.unshorten(shown).map(str::to_owned)
}

/// Routes `resources/read`, `resources/subscribe`, `resources/unsubscribe`, and completions of a template's variables.
pub(crate) fn by_uri(shared: &Arc<GatewayState>, target: &Target, place: &[At], call: Call) -> Reply {
    let found = call.params.find(place);
    let Some(uri) = found.string(call.params.json()) else { return Reply::failed(ErrorObject::missing_string("uri")) };
    let backends = shared.backends.load();
    let addressed = AddressedCall { call, found, view: NameView::Merged };
    match names::uri_owner(&uri) {
        UriOwner::Backend(backend, original) => {
            match backends.visible(target, &addressed.call.context.caller, backend) {
                Some(seen) => addressed.send(&seen, &original),
                None => Reply::failed(no_resource(&uri)),
            }
        }
        UriOwner::Listed => {
            let seen = backends.all_visible(target, &addressed.call.context.caller);
            listed(Arc::clone(shared), seen, uri, addressed)
        }
        UriOwner::Unknown => Reply::failed(no_resource(&uri)),
    }
}

fn listed(shared: Arc<GatewayState>, seen: Vec<VisibleBackend>, uri: String, addressed: AddressedCall) -> Reply {
    Reply::later(async move {
        match uri_owner::of(&shared.settings, &seen, &uri, &addressed.call.context).await {
            Some(seen) => {
                off_worker(addressed.call.params.json().len()).await;
                addressed.send(seen, &uri)
            }
            None => Reply::failed(no_resource(&uri)),
        }
    })
}

pub(crate) fn completion(shared: &Arc<GatewayState>, target: &Target, call: Call) -> Reply {
    match Completed::of(&call.params) {
        Ok(Completed::Prompt) => by_name(shared, target, ListKind::Prompts, places::REF_NAME, call, None),
        Ok(Completed::Template) => by_uri(shared, target, places::REF_URI, call),
        Err(error) => Reply::failed(error),
    }
}

/// Routes requests about one task.
pub(crate) fn by_task(shared: &Arc<GatewayState>, target: &Target, call: Call) -> Reply {
    let found = call.params.find(places::TASK_ID);
    let Some(shown) = found.string(call.params.json()) else {
        return Reply::failed(ErrorObject::missing_string("taskId"));
    };
    let backends = shared.backends.load();
    let seen = names::split_task_id(&shown)
        .and_then(|(backend, id)| Some((backends.visible(target, &call.context.caller, backend)?, id)));
    match seen {
        Some((seen, id)) => AddressedCall { call, found, view: NameView::Merged }.send(&seen, id),
        None => Reply::failed(ErrorObject::unknown_task()),
    }
}

/// The error for a tool or prompt that does not exist, or not for this caller: both get the same.
pub(crate) fn unknown(kind: ListKind, name: &str) -> ErrorObject {
    metrics::counter!("lockkeeper_gateway_unknown_names_total").increment(1);
    let what = if kind == ListKind::Prompts { "prompt" } else { "tool" };
    ErrorObject::invalid_params(&format!("Unknown {what}: {name}"))
}

/// The error for a missing resource; translation changes its code for 2026-07-28.
fn no_resource(uri: &str) -> ErrorObject {
    ErrorObject::with_data(ErrorObject::RESOURCE_NOT_FOUND, "Resource not found", &data!({ "uri": uri }))
        .written_in(Revision::NEWEST_LEGACY)
}

// === impl AddressedCall ===

impl AddressedCall {
    /// A call of a tool at the server's own endpoint.
    pub(crate) fn of_own_tool(call: Call) -> Self {
        let found = call.params.find(places::NAME);
        Self { call, found, view: NameView::Own }
    }

    /// The name, URI or id; empty if it is not a string.
    pub(crate) fn shown(&self) -> String {
        self.found.string(self.call.params.json()).unwrap_or_default()
    }

    /// Sends the call of the tool or prompt that the client knows as `shown` and the backend as `name`, if the caller
    /// may call it. Waits for the caller's list if that has to decide.
    pub(crate) fn send_if_open(self, seen: &VisibleBackend, kind: ListKind, shown: &str, name: &str) -> Reply {
        let verdict = match kind {
            ListKind::Tools => seen.tool(&self.call.context, name),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => ToolVerdict::Open,
        };
        match verdict {
            ToolVerdict::Open => self.send(seen, name),
            ToolVerdict::Unknown => Reply::failed(unknown(kind, shown)),
            ToolVerdict::InList => {
                let (seen, shown, name) = (seen.clone(), shown.to_owned(), name.to_owned());
                Reply::later(async move {
                    match seen.listed_tool(&self.call.context, &name).await {
                        Ok(Some(listed)) => {
                            off_worker(self.call.params.json().len()).await;
                            self.send(&seen, &listed)
                        }
                        Ok(None) => Reply::failed(unknown(kind, &shown)),
                        Err(error) => Reply::failed(error),
                    }
                })
            }
        }
    }

    /// Sends the call with the backend's own name, and rewrites the reply for the client. If the member is repeated,
    /// every occurrence is replaced, so that the backend reads the name that was checked.
    fn send(self, seen: &VisibleBackend, original: &str) -> Reply {
        let Self { call, found, view } = self;
        let method = call.method.clone();
        let params = call.params.replaced(&found, &json::quote(original));
        tracing::debug!(server = %seen.entry.id, %method, user = %call.context.caller.user, "call");
        let call = Call { params, ..call };
        let reply = match seen.plain_server() {
            Some(server) => server.call(call),
            None => backend_call::call(seen, call),
        };
        match view {
            NameView::Own => reply,
            NameView::Merged => {
                let rewriter = seen.rewriter();
                reply.map(move |event| rewriter.event(&method, event))
            }
        }
    }
}
