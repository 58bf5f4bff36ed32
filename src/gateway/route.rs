//! Calls on the merged endpoint, each to the one backend that it is for. Knows nothing of what is in the lists.

use std::sync::Arc;

use serde_json::json as data;

use super::{
    Gateway, calling,
    catalog::Kind,
    gather::sole,
    names, owner,
    set::{Seen, Set},
    uris::{self, Origin},
};
use crate::mcp::{
    Call, Context, ErrorObject, Reply, Revision,
    json::{self, At, Found, Object},
};

/// Where `tools/call` and `prompts/get` name what they are for.
pub(crate) const NAME: &[At] = &[At::Key("name")];
/// Where requests for resources do.
pub(crate) const URI: &[At] = &[At::Key("uri")];
/// Where `completion/complete` names a prompt.
const REF_NAME: &[At] = &[At::Key("ref"), At::Key("name")];
/// Where `completion/complete` names a template.
const REF_URI: &[At] = &[At::Key("ref"), At::Key("uri")];

/// A call, and where it names what it is for: the parameters are parsed once.
pub(crate) struct Addressed {
    pub(crate) call: Call,
    pub(crate) found: Found,
}

/// `tools/call` and `prompts/get`, and completions of a prompt's arguments.
pub(crate) fn by_name(gateway: &Arc<Gateway>, kind: Kind, place: &[At], call: Call) -> Reply {
    let found = call.params.find(place);
    let Some(shown) = found.string(call.params.json()) else { return Reply::failed(missing("name")) };
    let set = gateway.set.load();
    let Some((seen, rest)) =
        names::split(&shown).and_then(|(backend, rest)| Some((set.seen(&call.context.caller, backend)?, rest)))
    else {
        return Reply::failed(unknown(kind, &shown));
    };
    let addressed = Addressed { call, found };
    if names::may_be_short(rest) {
        let rest = rest.to_owned();
        return Reply::later(async move {
            let name = long(&seen, kind, &addressed.call.context, &shown).await.unwrap_or(rest);
            addressed.send_named(&seen, kind, &shown, &name)
        });
    }
    addressed.send_named(&seen, kind, &shown, rest)
}

/// The name that `shown` was made of, where it was shortened. The backend's list is waited for only where what is at hand
/// does not have it.
async fn long(seen: &Seen, kind: Kind, context: &Context, shown: &str) -> Option<String> {
    let asked = seen.mounted.catalog.list(context, kind);
    let at_hand = asked.look.value.clone().or_else(|| asked.fallback.clone());
    if let Some(name) = at_hand.as_ref().and_then(|list| list.unshorten(shown)) {
        return Some(name.to_owned());
    }
    sole(asked).await.ok()?.unshorten(shown).map(str::to_owned)
}

/// `resources/read`, `resources/subscribe` and `resources/unsubscribe`, and completions of a template's variables.
pub(crate) fn by_uri(gateway: &Arc<Gateway>, place: &[At], call: Call) -> Reply {
    let found = call.params.find(place);
    let Some(uri) = found.string(call.params.json()) else { return Reply::failed(missing("uri")) };
    let set = gateway.set.load_full();
    let addressed = Addressed { call, found };
    match uris::origin(&uri) {
        Origin::Backend(backend, original) => match set.seen(&addressed.call.context.caller, backend) {
            Some(seen) => addressed.send(&seen, &original),
            None => Reply::failed(no_resource(&uri)),
        },
        Origin::Listed => listed(Arc::clone(gateway), set, uri, addressed),
        Origin::Unknown => Reply::failed(no_resource(&uri)),
    }
}

fn listed(gateway: Arc<Gateway>, set: Arc<Set>, uri: String, addressed: Addressed) -> Reply {
    Reply::later(async move {
        let context = &addressed.call.context;
        let seen = set.all_seen(&context.caller);
        match owner::of(&gateway, &seen, &uri, context).await {
            Some(seen) => addressed.send(seen, &uri),
            None => Reply::failed(no_resource(&uri)),
        }
    })
}

/// `completion/complete`.
pub(crate) fn completion(gateway: &Arc<Gateway>, call: Call) -> Reply {
    let reference = call.params.object().and_then(|params| params.get("ref").map(str::to_owned));
    let kind = reference.and_then(|text| Object::parse(text.as_bytes())?.string("type"));
    match kind.as_deref() {
        Some("ref/prompt") => by_name(gateway, Kind::Prompts, REF_NAME, call),
        Some("ref/resource") => by_uri(gateway, REF_URI, call),
        _ => Reply::failed(ErrorObject::invalid_params("`ref.type` must be `ref/prompt` or `ref/resource`")),
    }
}

/// The error for a tool or prompt that is not there, or not there for this caller: nobody can tell which.
pub(crate) fn unknown(kind: Kind, name: &str) -> ErrorObject {
    metrics::counter!("lockkeeper_gateway_unknown_names_total").increment(1);
    let what = if kind == Kind::Prompts { "prompt" } else { "tool" };
    ErrorObject::invalid_params(&format!("Unknown {what}: {name}"))
}

/// The error for a resource that is not there; its code is another in 2026-07-28.
fn no_resource(uri: &str) -> ErrorObject {
    ErrorObject::with_data(ErrorObject::RESOURCE_NOT_FOUND, "Resource not found", &data!({ "uri": uri }))
        .written_in(Revision::NEWEST_LEGACY)
}

/// The error for parameters that do not name what they are for.
pub(crate) fn missing(key: &str) -> ErrorObject {
    ErrorObject::invalid_params(&format!("`{key}` is missing or is no string"))
}

// === impl Addressed ===

impl Addressed {
    fn send_named(self, seen: &Seen, kind: Kind, shown: &str, name: &str) -> Reply {
        if kind == Kind::Tools && !seen.offers_tool(&self.call.context, name) {
            return Reply::failed(unknown(kind, shown));
        }
        self.send(seen, name)
    }

    /// Sends the call with the backend's own name for what it is for, and shows what comes back. Every occurrence of a
    /// repeated member is replaced, so that the backend reads the name that was checked.
    pub(crate) fn send(self, seen: &Seen, original: &str) -> Reply {
        let Self { call, found } = self;
        let rewriter = seen.rewriter();
        let method = call.method.clone();
        let params = call.params.replaced(found, &json::quote(original));
        tracing::debug!(backend = %seen.mounted.id, %method, user = %call.context.caller.user, "call");
        calling::call(seen, Call { params, ..call }).map(move |event| rewriter.event(&method, event))
    }
}
