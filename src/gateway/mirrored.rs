//! Calls of tools whose parameters are mirrored in headers. What a client mirrored is held against the tool as it was
//! listed, before the call goes anywhere; what is to be mirrored toward the server is made anew. Knows nothing of routes.

use std::sync::Arc;

use serde_json::Value;

use super::{
    catalog::{Kind, List},
    gather::sole,
    lists::View,
    names,
    set::Seen,
};
use crate::mcp::{Call, ErrorObject, Payload, json::Object, mirrored::Mirror};

/// Holds the call of a tool of one of `seen`, shown in the names of `view`, against what was mirrored of it. A tool that
/// is not listed is for its server to judge.
///
/// # Errors
///
/// `-32020` where they differ.
pub(crate) async fn check(view: View, seen: &[Seen], call: &Call) -> Result<(), ErrorObject> {
    let Some(mirror) = &call.context.mirror else { return Ok(()) };
    let Some(params) = call.params.object() else { return Ok(()) };
    let Some(shown) = params.string("name") else { return Ok(()) };
    let (one, name) = match view {
        View::Own => (seen.first(), shown.as_str()),
        View::Merged => {
            let Some((backend, rest)) = names::split(&shown) else { return Ok(()) };
            (seen.iter().find(|one| one.mounted.id.as_str() == backend), rest)
        }
    };
    let Some(one) = one else { return Ok(()) };
    let Some(list) = tools(one, call).await else { return Ok(()) };
    let name = list.unshorten(&shown).unwrap_or(name);
    match list.mirrored(name) {
        Some(mirrored) => mirrored.check(&arguments(&params), mirror),
        None => Ok(()),
    }
}

/// What is to be mirrored of this call of the tool `name`, as its server listed it.
pub(crate) fn of_call(list: &List, name: &str, params: &Payload) -> Option<Arc<Mirror>> {
    let mirror = list.mirrored(name)?.of_call(&arguments(&params.object()?));
    (!mirror.is_empty()).then(|| Arc::new(mirror))
}

/// The tools as they are at hand, waited for where nothing is.
async fn tools(seen: &Seen, call: &Call) -> Option<Arc<List>> {
    let asked = seen.mounted.catalog.list(&call.context, Kind::Tools);
    match asked.look.value.clone().or_else(|| asked.fallback.clone()) {
        Some(list) => Some(list),
        None => sole(asked).await.ok(),
    }
}

fn arguments(params: &Object<'_>) -> Value {
    params.get("arguments").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
