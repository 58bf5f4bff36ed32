//! The four lists, served from the catalog: merged, or one backend's own.
//!
//! A merged list is in the client's version; each entry is translated from its server's version. The list of a single
//! backend is in the backend's version, unchanged if possible.

use std::{collections::HashSet, sync::Arc};

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{
    access::VisibleBackend,
    backends::NameView,
    catalog::{DiscoverInfo, List},
    gather::{Gathered, WaitPolicy, gather},
    hints::{CacheHints, CacheScope},
    shared::GatewayState,
    uri_owner,
};
use crate::{
    crossing::tasks::task_support,
    mcp::{Call, ClientInfo, Context, ErrorObject, Feature, ListKind, Outcome, Payload, Revision, json, meta},
    support::off_worker::off_worker,
};

/// A list request, and the parts of the list that are available.
struct ListQuery<'a> {
    view: NameView,
    kind: ListKind,
    seen: &'a [VisibleBackend],
    given: Vec<Gathered<List>>,
    /// By position of the backend: true if its tools must be marked as callable as tasks.
    marked: Vec<bool>,
    /// Positions of entries that belong to another backend.
    foreign: HashSet<(usize, usize)>,
    call: &'a Call,
}

/// Start of a page: the position of a backend and of an entry in its list. All pages have the same cache scope
/// (2026-07-28, caching).
#[derive(Debug, Clone, Copy)]
struct Position {
    backend: usize,
    entry: usize,
    scope: CacheScope,
}

struct Page {
    kind: ListKind,
    /// The version of the entries.
    revision: Revision,
    entries: Vec<Bytes>,
    /// The cursor of the next page.
    next: Option<String>,
    hints: CacheHints,
    /// The `Implementation` of the server that the list comes from.
    server: Option<Bytes>,
}

/// Bit of a packed position that marks a public list.
const PUBLIC: u64 = 1 << 63;

/// One page of the list of the backends in `seen`, in that order.
pub(crate) async fn serve(
    shared: &GatewayState,
    view: NameView,
    seen: &[VisibleBackend],
    kind: ListKind,
    call: &Call,
) -> Outcome {
    let setting = setting(view, seen, kind, call);
    let start = match cursor(&call.params).map(|text| shared.cursors.open(&text?, &setting)).transpose() {
        Ok(start) => start.map(Position::unpack),
        Err(error) => return Outcome::Failed(error),
    };
    let asked = seen.iter().map(|one| one.entry.catalog.list_to_show(&call.context, kind)).collect();
    let given = gather(asked, shared.settings.cold_list_budget, WaitPolicy::UntilOne).await;
    if let Some(error) = none_of(seen, &given) {
        return Outcome::Failed(error);
    }
    let marked = marked(seen, &given, kind, &call.context).await;
    let foreign = match (view, kind) {
        (NameView::Merged, ListKind::Resources | ListKind::Templates) => uri_owner::foreign_places(seen, &given),
        _ => HashSet::new(),
    };
    let asked = ListQuery { view, kind, seen, given, marked, foreign, call };
    if let (None, Some(whole)) = (start, asked.whole(shared.settings.page_size)) {
        return Outcome::Complete(whole);
    }
    let hints = asked.hints(shared);
    let start = start.unwrap_or(Position { backend: 0, entry: 0, scope: hints.scope });
    if start.scope < hints.scope {
        // the earlier pages were public, so this private list is a different one
        return Outcome::Failed(invalid_cursor());
    }
    off_worker(asked.untranslated()).await;
    let (entries, next) = asked.page(start, shared.settings.page_size);
    let next = next.map(|next| shared.cursors.seal(next.pack(), &setting, &*shared.deps.random));
    let (revision, server) = (asked.revision(), asked.server().await);
    Outcome::Complete(Page { kind, revision, entries, next, hints: hints.within(start.scope), server }.written())
}

/// Marks the backends with the tasks extension, if this client needs their tools marked as callable as tasks.
async fn marked(seen: &[VisibleBackend], given: &[Gathered<List>], kind: ListKind, context: &Context) -> Vec<bool> {
    let mut marked = vec![false; seen.len()];
    if kind != ListKind::Tools || !task_support::are_marked_for(&context.client) {
        return marked;
    }
    for ((mark, one), list) in marked.iter_mut().zip(seen).zip(given) {
        let Ok(list) = list else { continue };
        *mark = server_info(one, list, context).await.is_some_and(|info| info.extends_tasks());
    }
    marked
}

/// Server information of the backend with this list. If the list is of this run, the information has been fetched too.
async fn server_info(seen: &VisibleBackend, list: &List, context: &Context) -> Option<Arc<DiscoverInfo>> {
    let info = seen.entry.catalog.server_info(context);
    if list.is_remembered { info.at_hand() } else { info.wait().await.ok() }
}

/// The error if there are backends but no lists: a single backend's own error, or an error that names all of them.
fn none_of(seen: &[VisibleBackend], given: &[Gathered<List>]) -> Option<ErrorObject> {
    match given {
        [] => None,
        [Err(error)] => Some(error.clone()),
        _ if given.iter().any(Result::is_ok) => None,
        _ => {
            let names: Vec<&str> = seen.iter().map(|one| one.entry.id.as_str()).collect();
            let data = serde_json::json!({ "backends": names, "servers": names, "retryable": true });
            let message = "No server could be listed. Try again, or see the status of the gateway.";
            Some(ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, message, &data))
        }
    }
}

/// The cursor of a request; an error if it is not a string. Some clients send an empty one or null instead of none.
fn cursor(params: &Payload) -> Option<Result<String, ErrorObject>> {
    let object = params.object()?;
    let text = object.get("cursor").filter(|text| !matches!(*text, "null" | "\"\""))?;
    Some(json::unquote(text).ok_or_else(invalid_cursor))
}

fn invalid_cursor() -> ErrorObject {
    ErrorObject::invalid_params("Invalid cursor")
}

/// What a cursor is bound to: the list, its names, the user, the endpoint's group, and the visible backends.
fn setting(view: NameView, seen: &[VisibleBackend], kind: ListKind, call: &Call) -> Vec<u8> {
    let backends: Vec<String> = seen.iter().map(VisibleBackend::verdict_text).collect();
    let group = seen.first().map_or("", VisibleBackend::group_name);
    let user = &call.context.caller.user;
    format!("{view:?}\0{kind:?}\0{group}\0{}\0{user}", backends.join(",")).into_bytes()
}

// === impl ListQuery ===

impl ListQuery<'_> {
    /// A backend's own list unchanged, if one page of at most `most` entries holds all of it and the caller sees
    /// everything.
    fn whole(&self, most: usize) -> Option<Payload> {
        let (NameView::Own, [one], [Ok(list)]) = (self.view, self.seen, self.given.as_slice()) else { return None };
        let revision = self.call.context.client.revision;
        let valid = list.entries.iter().all(|entry| entry.valid_in.has(revision));
        let fits = valid && one.shows_all(self.kind) && list.len() <= most;
        let whole = list.whole.as_ref().filter(|whole| fits && whole.string("nextCursor").is_none())?;
        Some(if self.marked[0] { task_support::all_marked(whole) } else { whole.clone() })
    }

    /// The version of the list: the client's if it merges several backends.
    fn revision(&self) -> Revision {
        match (self.view, self.given.as_slice()) {
            (NameView::Own, [Ok(list)]) => list.revision.unwrap_or(Revision::NEWEST_LEGACY),
            _ => self.call.context.client.revision,
        }
    }

    /// Hints that hold for all parts (`translation` section 5). A list that depends on the caller's rights is private.
    fn hints(&self, shared: &GatewayState) -> CacheHints {
        let parts = self.given.iter().filter_map(|given| given.as_ref().ok()?.hints);
        let hints = parts.reduce(CacheHints::and).unwrap_or(CacheHints::NONE);
        let is_current = |given: &Gathered<List>| given.as_ref().is_ok_and(|list| !list.is_remembered);
        let hints = if self.given.iter().all(is_current) { hints } else { hints.of_incomplete() };
        let hidden = self.view == NameView::Merged && !shared.backends.load().are_all(self.seen);
        let limited = hidden || self.seen.iter().any(|one| !one.shows_all(self.kind));
        hints.within(if limited { CacheScope::Private } else { CacheScope::Public })
    }

    /// The server named in the list: the gateway for a merged list, otherwise the backend's. Only for clients of
    /// 2026-07-28.
    async fn server(&self) -> Option<Bytes> {
        match (self.view, self.seen, self.given.as_slice()) {
            _ if !self.call.context.client.revision.has(Feature::NamedServers) => None,
            (NameView::Own, [one], [Ok(list)]) => server_info(one, list, &self.call.context).await?.server(),
            _ => Some(ClientInfo::gateway_implementation()),
        }
    }

    /// Number of bytes that are not translated into this client's version yet.
    fn untranslated(&self) -> usize {
        let client = &self.call.context;
        let lists = self.given.iter().flatten().filter(|_| self.view == NameView::Merged);
        lists.map(|list| list.untranslated(client.client.revision, client.profile)).sum()
    }

    /// At most `most` entries from `start` on, and the start of the next page.
    fn page(&self, start: Position, most: usize) -> (Vec<Bytes>, Option<Position>) {
        let mut page = Vec::new();
        let client = (self.call.context.client.revision, self.call.context.profile);
        for (backend, (one, list)) in self.seen.iter().zip(&self.given).enumerate().skip(start.backend) {
            let Ok(list) = list else { continue };
            let first = if backend == start.backend { start.entry } else { 0 };
            let shown = (self.view == NameView::Merged).then(|| list.converted(self.kind, client.0, client.1));
            for (entry, offered) in list.entries.iter().enumerate().skip(first) {
                let is_hidden = (self.kind == ListKind::Tools && !one.shows_tool(&offered.key))
                    || self.foreign.contains(&(backend, entry));
                if is_hidden || !offered.valid_in.has(client.0) {
                    continue;
                }
                if page.len() >= most {
                    return (page, Some(Position { backend, entry, ..start }));
                }
                let shown = shown.as_ref().map_or_else(|| Some(offered.raw.clone()), |shown| shown[entry].clone());
                page.extend(shown.map(|tool| if self.marked[backend] { task_support::marked(&tool) } else { tool }));
            }
        }
        (page, None)
    }
}

// === impl Position ===

impl Position {
    const fn pack(self) -> u64 {
        let public = if matches!(self.scope, CacheScope::Public) { PUBLIC } else { 0 };
        public | ((self.backend as u64) << 32) | (self.entry as u64 & 0xffff_ffff)
    }

    fn unpack(packed: u64) -> Self {
        let part = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
        let scope = if packed & PUBLIC == 0 { CacheScope::Private } else { CacheScope::Public };
        Self { backend: part((packed & !PUBLIC) >> 32), entry: part(packed & 0xffff_ffff), scope }
    }
}

// === impl Page ===

impl Page {
    /// Writes the result: the entries byte for byte, in the envelope of their version.
    fn written(&self) -> Payload {
        let size: usize = self.entries.iter().map(|entry| entry.len() + 1).sum();
        let mut text = BytesMut::with_capacity(size + 512);
        let start = if self.revision.has(Feature::ResultTypes) { r#"{"resultType":"complete","# } else { "{" };
        text.put_slice(format!("{start}\"{}\":[", self.kind.member()).as_bytes());
        for (at, entry) in self.entries.iter().enumerate() {
            if at > 0 {
                text.put_u8(b',');
            }
            text.put_slice(entry);
        }
        text.put_u8(b']');
        if let Some(next) = &self.next {
            text.put_slice(format!(",\"nextCursor\":{}", json::quote(next)).as_bytes());
        }
        if self.revision.has(Feature::CacheHints) {
            self.put_envelope(&mut text);
        }
        text.put_u8(b'}');
        let page = Payload::new(self.revision, text.freeze());
        match &self.server {
            Some(server) => page.of_server(String::from_utf8_lossy(server).into()),
            None => page,
        }
    }

    /// Writes the members of every 2026-07-28 list, apart from its entries.
    fn put_envelope(&self, text: &mut BytesMut) {
        let CacheHints { ttl, scope } = self.hints;
        text.put_slice(format!(",\"ttlMs\":{ttl},\"cacheScope\":\"{}\"", scope.as_str()).as_bytes());
        if let Some(server) = &self.server {
            text.put_slice(format!(",\"{}\":{{\"{}\":", meta::META, meta::SERVER_INFO).as_bytes());
            text.put_slice(server);
            text.put_u8(b'}');
        }
    }
}
