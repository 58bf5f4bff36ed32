//! The gateway's own server information (`translation` section 5), which combines the information of its backends.

use serde_json::{Map, Value, json};

use super::{
    access::VisibleBackend,
    catalog::{DiscoverInfo, Lookup},
    descriptions::DescriptionKey,
    gather::{Gathered, WaitPolicy, gather},
    shared::GatewayState,
};
use crate::{
    mcp::{ClientInfo, Context, Outcome, Payload, Revision, extensions, json::draft::Draft, meta},
    model::Target,
};

/// The server capabilities defined by MCP.
const DEFINED: [&str; 8] =
    ["tools", "prompts", "resources", "completions", "logging", "experimental", "extensions", meta::CORE_TASKS];

/// Maximum size of the joined instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 16 << 10;

/// The server information of the merged endpoint. A backend that has not answered yet counts as having all
/// capabilities, so that clients do not skip lists that it offers a moment later. The result is kept for later clients.
pub(crate) async fn merged(shared: &GatewayState, target: &Target, context: &Context) -> Outcome {
    // read first, so that a change in the meantime keeps the result out of the cache
    let changes = shared.descriptions.changes();
    let backends = shared.backends.load_full();
    let key = DescriptionKey::of(target, context, backends.differ_by_user());
    if let Some(kept) = key.as_ref().and_then(|key| shared.descriptions.find(key)) {
        return Outcome::Complete(kept);
    }
    let (_, seen) = backends.visible_at(target, &context.caller);
    let asked: Vec<Lookup<DiscoverInfo>> = seen.iter().map(|one| one.entry.catalog.server_info(context)).collect();
    let due_at = asked.iter().map(|one| one.freshness.due_at).min();
    let given = gather(asked, shared.settings.cold_budget, WaitPolicy::Budget).await;
    let result = described(&seen, &given);
    if let (Some(key), Some(due_at)) = (key, due_at) {
        shared.descriptions.keep(key, &result, changes, due_at);
    }
    Outcome::Complete(result)
}

fn described(seen: &[VisibleBackend], given: &[Gathered<DiscoverInfo>]) -> Payload {
    let names: Vec<&str> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
    let implementation: Value =
        serde_json::from_slice(&ClientInfo::gateway_implementation()).unwrap_or_else(|_| json!({}));
    let mut result = json!({
        "supportedVersions": names,
        "capabilities": capabilities(given),
        "_meta": { meta::SERVER_INFO: implementation },
    });
    if let Some(instructions) = instructions(seen, given) {
        result["instructions"] = instructions.into();
    }
    Payload::of(Revision::V2026_07_28, &result)
}

/// One backend's own answer, without what this caller may not use.
pub(crate) async fn own(seen: &VisibleBackend, context: &Context) -> Outcome {
    match seen.entry.catalog.server_info(context).wait().await {
        Ok(about) => Outcome::Complete(shown(seen, &about)),
        Err(error) => Outcome::Failed(error),
    }
}

/// A backend's answer, without extensions and other capabilities whose methods do not exist for this caller.
fn shown(seen: &VisibleBackend, about: &DiscoverInfo) -> Payload {
    let unchanged = || about.result.clone();
    if seen.takes_any_method() {
        return unchanged();
    }
    let hidden =
        |named: Map<String, Value>| named.into_iter().map(|(name, _)| name).filter(|id| !seen.shows_extension(id));
    let capabilities: Vec<String> = hidden(about.capabilities()).filter(|name| !DEFINED.contains(&&**name)).collect();
    let extensions: Vec<String> = hidden(about.named_under("extensions")).collect();
    let Some(text) = about.result.member("capabilities").filter(|_| !capabilities.is_empty() || !extensions.is_empty())
    else {
        return unchanged();
    };
    let mut draft = Draft::of(text);
    draft.remove_all(&capabilities.iter().map(String::as_str).collect::<Vec<_>>());
    let extensions: Vec<&str> = extensions.iter().map(String::as_str).collect();
    if draft.edit("extensions").is_some_and(|all| all.remove_all(&extensions) && all.is_empty()) {
        draft.remove("extensions");
    }
    about.result.with("capabilities", &draft.text())
}

/// The union of all capabilities. `listChanged` is always true, since the set of backends can change. Capabilities that
/// the gateway does not support are left out.
fn capabilities(given: &[Gathered<DiscoverInfo>]) -> Value {
    let any = |test: &dyn Fn(&DiscoverInfo) -> bool| {
        given.is_empty() || given.iter().any(|one| one.as_deref().map_or(true, test))
    };
    let mut union = Map::new();
    for name in ["tools", "prompts", "resources"] {
        if any(&|about| about.has(name)) {
            union.insert(name.to_owned(), json!({ "listChanged": true }));
        }
    }
    if let Some(resources) = union.get_mut("resources")
        && any(&DiscoverInfo::subscribes)
    {
        resources["subscribe"] = true.into();
    }
    for name in ["completions", "logging"] {
        if any(&|about| about.has(name)) {
            union.insert(name.to_owned(), json!({}));
        }
    }
    // unknown while a backend has not answered
    let known: Vec<&DiscoverInfo> = given.iter().filter_map(|one| one.as_deref().ok()).collect();
    extensions::add_to_merged(&known.iter().map(|about| about.capabilities()).collect::<Vec<_>>(), &mut union);
    let named = |name: &str| known.iter().map(|about| about.named_under(name)).collect::<Vec<_>>();
    let experimental = extensions::agreed_members(&named("experimental"));
    for (name, settings) in [("experimental", experimental), ("extensions", extensions::merged(&named("extensions")))] {
        if !settings.is_empty() {
            union.insert(name.to_owned(), settings.into());
        }
    }
    union.into()
}

/// Instructions of all backends, each under the backend's name, truncated to [`MAX_INSTRUCTIONS`].
fn instructions(seen: &[VisibleBackend], given: &[Gathered<DiscoverInfo>]) -> Option<String> {
    let mut text = String::new();
    for (one, about) in seen.iter().zip(given) {
        let Some(told) = about.as_ref().ok().and_then(|about| about.instructions()) else { continue };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.extend(["## ", one.entry.id.as_str(), "\n\n", told.trim()]);
    }
    text.truncate(text.floor_char_boundary(MAX_INSTRUCTIONS));
    (!text.is_empty()).then_some(text)
}
