//! The faces of the gateway: each a [`Server`] of its own. Knows which method goes which way, and nothing of how.

use std::sync::Arc;

use super::{
    Gateway, Naming, calling,
    catalog::Kind,
    discover, fanout, listen,
    lists::{self, View},
    mirrored, route,
    set::Seen,
    tasks,
};
use crate::{
    mcp::{Call, ErrorObject, Method, Payload, Reply, Revision, Server, json},
    model::{Access, BackendId, Caller},
};

/// One face.
pub(crate) struct Face {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) target: Target,
}

/// Where a face leads.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// To all backends.
    Merged,
    /// To this one, with its own names.
    One(BackendId),
}

impl Server for Face {
    fn call(&self, call: Call) -> Reply {
        // a server that reads names without case would serve what was not checked under this name
        if call.method.is_misspelled() {
            return Reply::failed(ErrorObject::method_not_found(call.method.as_str()));
        }
        if call.method == Method::ToolsCall && call.context.mirror.is_some() {
            let (gateway, target) = (Arc::clone(&self.gateway), self.target.clone());
            return Reply::later(async move {
                let (view, seen) = gateway.seen(&target, &call.context.caller);
                match mirrored::check(view, &seen, &call).await {
                    Ok(()) => dispatch(&gateway, &target, call),
                    Err(error) => Reply::failed(error),
                }
            });
        }
        dispatch(&self.gateway, &self.target, call)
    }
}

fn dispatch(gateway: &Arc<Gateway>, target: &Target, call: Call) -> Reply {
    match target {
        Target::Merged if gateway.plain().is_none() => merged(gateway, call),
        target => single(gateway, target, call),
    }
}

impl Gateway {
    /// The one backend that the merged endpoint stands for, where it does so with that backend's own names.
    fn plain(&self) -> Option<BackendId> {
        match (self.settings.naming, self.set.load().mounts.as_slice()) {
            (Naming::Plain, [one]) => Some(one.id.clone()),
            _ => None,
        }
    }

    /// In which names the backends at `target` are shown, and which of them this caller may see.
    pub(crate) fn seen(&self, target: &Target, caller: &Caller) -> (View, Vec<Seen>) {
        let one = match target {
            Target::One(id) => Some(id.clone()),
            Target::Merged => self.plain(),
        };
        match one {
            Some(id) => (View::Own, self.set.load().seen(caller, id.as_str()).into_iter().collect()),
            None => (View::Merged, self.set.load().all_seen(caller)),
        }
    }
}

fn merged(gateway: &Arc<Gateway>, call: Call) -> Reply {
    match &call.method {
        Method::ToolsCall => route::by_name(gateway, Kind::Tools, route::NAME, call),
        Method::PromptsGet => route::by_name(gateway, Kind::Prompts, route::NAME, call),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            route::by_uri(gateway, route::URI, call)
        }
        Method::Complete => route::completion(gateway, call),
        Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => {
            tasks::by_task(gateway, call)
        }
        Method::Listen => listen::listen(Arc::clone(gateway), Target::Merged, call),
        Method::SetLevel => {
            let seen = gateway.set.load().all_seen(&call.context.caller);
            fanout::set_level(gateway, seen, call)
        }
        Method::Ping => Reply::complete(Payload::empty(Revision::NEWEST_LEGACY)),
        Method::Discover => {
            let gateway = Arc::clone(gateway);
            Reply::later(async move {
                let (_, seen) = gateway.seen(&Target::Merged, &call.context.caller);
                Reply::done(discover::merged(&gateway, &seen, &call.context).await)
            })
        }
        method if method.is_notification() => fanout::notify(gateway, call),
        method => match Kind::listed_by(method) {
            Some(kind) => {
                let gateway = Arc::clone(gateway);
                Reply::later(async move {
                    let (view, seen) = gateway.seen(&Target::Merged, &call.context.caller);
                    Reply::done(lists::serve(&gateway, view, &seen, kind, &call).await)
                })
            }
            None => Reply::failed(ErrorObject::method_not_found(method.as_str())),
        },
    }
}

fn single(gateway: &Arc<Gateway>, target: &Target, call: Call) -> Reply {
    let (_, mut seen) = gateway.seen(target, &call.context.caller);
    let Some(one) = seen.pop() else {
        return match call.params.string("name") {
            Some(name) if call.method == Method::ToolsCall => Reply::failed(route::unknown(Kind::Tools, &name)),
            _ if call.method.is_notification() => Reply::complete(Payload::absent(Revision::NEWEST_LEGACY)),
            _ => Reply::failed(ErrorObject::invalid_params("Unknown backend: it is not configured, or not for you")),
        };
    };
    match &call.method {
        Method::Discover => Reply::later(async move { Reply::done(discover::own(&one, &call.context).await) }),
        Method::Listen => listen::listen(Arc::clone(gateway), target.clone(), call),
        Method::SetLevel => fanout::set_level(gateway, vec![one], call),
        Method::ToolsCall => {
            if one.access == Access::Full && !one.mounted.catalog.leaves_out_tools() {
                return calling::call(&one, call);
            }
            let found = call.params.find(route::NAME);
            let name = found.string(call.params.json()).unwrap_or_default();
            if !one.offers_tool(&call.context, &name) {
                return Reply::failed(route::unknown(Kind::Tools, &name));
            }
            // a repeated member must not be read otherwise than it was checked
            let params = call.params.replaced(found, &json::quote(&name));
            calling::call(&one, Call { params, ..call })
        }
        method => match Kind::listed_by(method) {
            Some(kind) => own_list(gateway, one, kind, call),
            None => calling::call(&one, call),
        },
    }
}

/// A backend is not asked for what it says it does not have.
fn own_list(gateway: &Arc<Gateway>, one: Seen, kind: Kind, call: Call) -> Reply {
    let gateway = Arc::clone(gateway);
    Reply::later(async move {
        let about = discover::about(&one, &call.context).await;
        if about.is_ok_and(|about| !about.has(kind.capability())) {
            return Reply::failed(ErrorObject::method_not_found(call.method.as_str()));
        }
        Reply::done(lists::serve(&gateway, View::Own, &[one], kind, &call).await)
    })
}
