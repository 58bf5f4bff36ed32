//! Calls on the merged endpoint, each to the one backend that it is for. Knows nothing of what is in the lists.

use std::sync::Arc;

use serde_json::json as data;

use super::{
    Gateway,
    catalog::Kind,
    gather::sole,
    names, owner,
    set::{Seen, Set},
    uris::{self, Origin},
};
use crate::mcp::{
    Call, ErrorObject, Payload, Reply,
    json::{self, At, Object},
};

/// Where a request names what it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// In a member of `params`.
    Param(&'static str),
    /// In a member of `params.ref` (`completion/complete`).
    Ref(&'static str),
}

/// `tools/call` and `prompts/get`, and completions of a prompt's arguments.
pub(crate) fn by_name(gateway: &Arc<Gateway>, kind: Kind, place: Place, call: Call) -> Reply {
    let Some(shown) = place.read(&call.params) else { return Reply::failed(place.missing()) };
    let set = gateway.set.load();
    let Some((seen, rest)) =
        names::split(&shown).and_then(|(backend, rest)| Some((set.seen(&call.context.caller, backend)?, rest)))
    else {
        return Reply::failed(unknown(kind, &shown));
    };
    if names::may_be_short(rest) {
        let rest = rest.to_owned();
        return Reply::later(async move {
            let list = sole(seen.mounted.catalog.list(&call.context, kind)).await.ok();
            let name = list.as_ref().and_then(|list| list.unshorten(&shown)).unwrap_or(&rest);
            named(&seen, kind, (&shown, name), place, call)
        });
    }
    named(&seen, kind, (&shown, rest), place, call)
}

fn named(seen: &Seen, kind: Kind, (shown, name): (&str, &str), place: Place, call: Call) -> Reply {
    if kind == Kind::Tools && !seen.allows_tool(name) {
        return Reply::failed(unknown(kind, shown));
    }
    forward(seen, place, name, call)
}

/// `resources/read`, `resources/subscribe` and `resources/unsubscribe`, and completions of a template's variables.
pub(crate) fn by_uri(gateway: &Arc<Gateway>, place: Place, call: Call) -> Reply {
    let Some(uri) = place.read(&call.params) else { return Reply::failed(place.missing()) };
    let set = gateway.set.load_full();
    match uris::origin(&uri) {
        Origin::Backend(backend, original) => match set.seen(&call.context.caller, backend) {
            Some(seen) => forward(&seen, place, &original, call),
            None => Reply::failed(no_resource(&uri)),
        },
        Origin::Listed => listed(Arc::clone(gateway), set, uri, place, call),
        Origin::Unknown => Reply::failed(no_resource(&uri)),
    }
}

fn listed(gateway: Arc<Gateway>, set: Arc<Set>, uri: String, place: Place, call: Call) -> Reply {
    Reply::later(async move {
        let seen = set.all_seen(&call.context.caller);
        match owner::of(&gateway, &seen, &uri, &call.context).await {
            Some(seen) => forward(seen, place, &uri, call),
            None => Reply::failed(no_resource(&uri)),
        }
    })
}

/// `completion/complete`.
pub(crate) fn completion(gateway: &Arc<Gateway>, call: Call) -> Reply {
    let reference = call.params.object().and_then(|params| params.get("ref").map(str::to_owned));
    let kind = reference.and_then(|text| Object::parse(text.as_bytes())?.string("type"));
    match kind.as_deref() {
        Some("ref/prompt") => by_name(gateway, Kind::Prompts, Place::Ref("name"), call),
        Some("ref/resource") => by_uri(gateway, Place::Ref("uri"), call),
        _ => Reply::failed(ErrorObject::invalid_params("`ref.type` must be `ref/prompt` or `ref/resource`")),
    }
}

/// Sends the call with the backend's own name for what it is for, and shows what comes back.
fn forward(seen: &Seen, place: Place, original: &str, call: Call) -> Reply {
    let rewriter = seen.rewriter();
    let method = call.method.clone();
    let params = place.write(&call.params, original);
    tracing::debug!(backend = %seen.mounted.id, %method, user = %call.context.caller.user, "call");
    seen.mounted.server.call(Call { params, ..call }).map(move |event| rewriter.event(&method, event))
}

/// The error for a tool or prompt that is not there, or not there for this caller: nobody can tell which.
pub(crate) fn unknown(kind: Kind, name: &str) -> ErrorObject {
    metrics::counter!("lockkeeper_gateway_unknown_names_total").increment(1);
    let what = if kind == Kind::Prompts { "prompt" } else { "tool" };
    ErrorObject::invalid_params(&format!("Unknown {what}: {name}"))
}

fn no_resource(uri: &str) -> ErrorObject {
    ErrorObject::with_data(ErrorObject::RESOURCE_NOT_FOUND, "Resource not found", &data!({ "uri": uri }))
}

// === impl Place ===

impl Place {
    fn read(self, params: &Payload) -> Option<String> {
        match self {
            Self::Param(key) => params.string(key),
            Self::Ref(key) => Object::parse(params.object()?.get("ref")?.as_bytes())?.string(key),
        }
    }

    /// Every occurrence is replaced, so that the backend reads the name that was checked.
    fn write(self, params: &Payload, value: &str) -> Payload {
        let value = json::quote(value);
        match self {
            Self::Param(key) => params.with(key, &value),
            Self::Ref(key) => params.rewrite(&[&[At::Key("ref"), At::Key(key)]], |_| Some(value.clone())),
        }
    }

    fn missing(self) -> ErrorObject {
        let (Self::Param(key) | Self::Ref(key)) = self;
        ErrorObject::invalid_params(&format!("`{key}` is missing or is no string"))
    }
}
