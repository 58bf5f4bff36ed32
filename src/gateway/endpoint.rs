//! Endpoints of the gateway, each a [`Server`], which dispatch by method.

use std::sync::Arc;

use super::{
    access::{MessageVerdict, VisibleBackend},
    backend_call::{self, MirroredTool},
    backends::NameView,
    discover, fanout, listen, lists,
    route::{self, AddressedCall},
    shared::GatewayState,
};
use crate::{
    mcp::{
        Call, ErrorObject, ListKind, Method, Payload, Reply, Revision, Server,
        methods::{MethodSubject, places},
        mirrored_params::Mirror,
    },
    model::Target,
};

/// The server at one endpoint. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EndpointServer {
    pub(crate) shared: Arc<GatewayState>,
    pub(crate) target: Target,
}

impl Server for EndpointServer {
    fn call(&self, mut call: Call) -> Reply {
        // a server that ignores case would read names that were not checked
        if call.method.is_misspelled() {
            return unknown_method(&call);
        }
        // taken out here: later, the field is for parameters mirrored to the server
        let mirror = call.context.mirror.take();
        let (shared, target) = (&self.shared, &self.target);
        let backends = shared.backends.load();
        match (backends.view(target), call.method.subject()) {
            (NameView::Own, _) => match backends.one_at(target, &call.context.caller) {
                Some(one) => self.own(one, call, mirror),
                None => absent(&call),
            },
            (NameView::Merged, Some(MethodSubject::Tool)) => {
                route::by_name(shared, target, ListKind::Tools, places::NAME, call, mirror)
            }
            (NameView::Merged, Some(MethodSubject::Prompt)) => {
                route::by_name(shared, target, ListKind::Prompts, places::NAME, call, None)
            }
            (NameView::Merged, Some(MethodSubject::Resource)) => {
                route::by_uri(shared, target, places::RESOURCE_URI, call)
            }
            (NameView::Merged, Some(MethodSubject::Reference)) => route::completion(shared, target, call),
            (NameView::Merged, Some(MethodSubject::Task)) => route::by_task(shared, target, call),
            (NameView::Merged, None) => of_all(shared, target, call),
        }
    }
}

impl EndpointServer {
    /// Serves a call to the only server of this endpoint, with the parameters that the client mirrored.
    fn own(&self, one: VisibleBackend, call: Call, mirror: Option<Arc<Mirror>>) -> Reply {
        match one.message(&call) {
            MessageVerdict::ByTool => self.own_tool(&one, call, mirror),
            MessageVerdict::Unknown => unknown_method(&call),
            MessageVerdict::Refused(error) => Reply::failed(error),
            MessageVerdict::Open => match &call.method {
                Method::Discover => Reply::later(async move { Reply::done(discover::own(&one, &call.context).await) }),
                Method::Listen => listen::listen(Arc::clone(&self.shared), self.target.clone(), call),
                method => match ListKind::listed_by(method) {
                    Some(kind) => own_list(&self.shared, one, kind, call),
                    None => send(&one, call),
                },
            },
        }
    }

    fn own_tool(&self, one: &VisibleBackend, call: Call, mirror: Option<Arc<Mirror>>) -> Reply {
        let shown = if one.entry.catalog.may_mirror_params() { call.params.string("name") } else { None };
        let Some(tool) = shown.and_then(|name| MirroredTool::of(one, &name, &name, mirror)) else {
            return call_own_tool(one, call);
        };
        match tool.check_at_hand(&call) {
            Some(Ok(())) => call_own_tool(one, call),
            Some(Err(error)) => Reply::failed(error),
            None => {
                let endpoint = self.clone();
                Reply::later(async move {
                    match tool.check(&call).await {
                        // looked up again, because the backends may have changed
                        Ok(()) => endpoint.call(call),
                        Err(error) => Reply::failed(error),
                    }
                })
            }
        }
    }
}

/// Serves a call that is not for one particular server.
fn of_all(shared: &Arc<GatewayState>, target: &Target, call: Call) -> Reply {
    match &call.method {
        Method::Listen => listen::listen(Arc::clone(shared), target.clone(), call),
        Method::Ping => Reply::complete(Payload::empty(Revision::NEWEST_LEGACY)),
        Method::Discover => {
            let (shared, target) = (Arc::clone(shared), target.clone());
            Reply::later(async move { Reply::done(discover::merged(&shared, &target, &call.context).await) })
        }
        method if method.is_notification() => fanout::notify(shared, target.clone(), call),
        method => match ListKind::listed_by(method) {
            Some(kind) => {
                let (shared, target) = (Arc::clone(shared), target.clone());
                Reply::later(async move {
                    let (view, seen) = shared.backends.load().visible_at(&target, &call.context.caller);
                    Reply::done(lists::serve(&shared, view, &seen, kind, &call).await)
                })
            }
            None => unknown_method(&call),
        },
    }
}

fn call_own_tool(one: &VisibleBackend, call: Call) -> Reply {
    if one.opens_all_tools() {
        return send(one, call);
    }
    // if a member is repeated, the server must read the one that was checked
    let addressed = AddressedCall::of_own_tool(call);
    let name = addressed.shown();
    addressed.send_if_open(one, ListKind::Tools, &name, &name)
}

fn send(one: &VisibleBackend, call: Call) -> Reply {
    match one.plain_server() {
        Some(server) => server.call(call),
        None => backend_call::call(one, call),
    }
}

/// The reply if the method does not exist for the caller. Notifications are dropped.
fn unknown_method(call: &Call) -> Reply {
    if call.method.is_notification() {
        metrics::counter!("lockkeeper_gateway_notifications_dropped_total").increment(1);
        return Reply::complete(Payload::absent(Revision::NEWEST_LEGACY));
    }
    Reply::failed(ErrorObject::method_not_found(call.method.as_str()))
}

/// The reply if the caller sees no backend.
fn absent(call: &Call) -> Reply {
    match call.params.string("name") {
        Some(name) if call.method == Method::ToolsCall => Reply::failed(route::unknown(ListKind::Tools, &name)),
        _ if call.method.is_notification() => Reply::complete(Payload::absent(Revision::NEWEST_LEGACY)),
        _ => Reply::failed(ErrorObject::invalid_params("Unknown server: it is not configured, or not for you")),
    }
}

/// Serves a backend's own list; an error if it does not declare such a list.
fn own_list(shared: &Arc<GatewayState>, one: VisibleBackend, kind: ListKind, call: Call) -> Reply {
    let shared = Arc::clone(shared);
    Reply::later(async move {
        if !one.entry.catalog.may_have(&call.context, kind).await {
            return Reply::failed(ErrorObject::method_not_found(call.method.as_str()));
        }
        Reply::done(lists::serve(&shared, NameView::Own, &[one], kind, &call).await)
    })
}
