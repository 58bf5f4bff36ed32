//! The four lists, served from the catalog: merged, or one backend's own. Knows nothing of fetching.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{
    Gateway,
    catalog::{Kind, List},
    gather::{Given, Patience, gather},
    set::Seen,
};
use crate::{
    mcp::{Call, ErrorObject, Outcome, Payload, Revision, json},
    model::Access,
};

/// In which names a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// In those of the merged endpoint.
    Merged,
    /// In the backend's own.
    Own,
}

/// Where a page begins: a backend's place, and an entry's.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    backend: usize,
    entry: usize,
}

/// One page of the list of `seen`, in their order.
pub(crate) async fn serve(gateway: &Gateway, view: View, seen: &[Seen], kind: Kind, call: &Call) -> Outcome {
    let setting = setting(view, seen, kind, call);
    let start = match cursor(&call.params).map(|text| gateway.cursors.open(&text?, &setting)).transpose() {
        Ok(start) => start.map(Position::unpack),
        Err(error) => return Outcome::Failed(error),
    };
    let asked = seen.iter().map(|one| one.mounted.catalog.list(&call.context, kind)).collect();
    let given = gather(asked, gateway.settings.cold_budget, Patience::UntilOne).await;
    if let Some(error) = none_of(seen, &given) {
        return Outcome::Failed(error);
    }
    if let (View::Own, None, [one], [Ok(list)]) = (view, start, seen, given.as_slice())
        && (one.access == Access::Full || kind != Kind::Tools)
        && list.len() <= gateway.settings.page_size
        && let Some(whole) = list.whole.as_ref().filter(|whole| whole.string("nextCursor").is_none())
    {
        return Outcome::Complete(whole.clone());
    }
    let (entries, next) = page(view, seen, &given, kind, (start.unwrap_or_default(), gateway.settings.page_size));
    let next = next.map(|next| gateway.cursors.seal(next.pack(), &setting, &*gateway.deps.random));
    Outcome::Complete(written(kind, &entries, next.as_deref()))
}

/// The error where there is something to ask and nothing to give: a sole backend's own, or one that names them all.
fn none_of(seen: &[Seen], given: &[Given<List>]) -> Option<ErrorObject> {
    match given {
        [] => None,
        [Err(error)] => Some(error.clone()),
        _ if given.iter().any(Result::is_ok) => None,
        _ => {
            let names: Vec<&str> = seen.iter().map(|one| one.mounted.id.as_str()).collect();
            let data = serde_json::json!({ "backends": names, "retryable": true });
            let message = "No backend could be listed. Try again, or see the status of the gateway.";
            Some(ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, message, &data))
        }
    }
}

/// The cursor that a request carries; an error where it is no string.
fn cursor(params: &Payload) -> Option<Result<String, ErrorObject>> {
    let object = params.object()?;
    let text = object.get("cursor").filter(|text| *text != "null")?;
    Some(json::unquote(text).ok_or_else(|| ErrorObject::invalid_params("Invalid cursor")))
}

/// What a cursor is bound to: the list, its names, the user, and what the user may see.
fn setting(view: View, seen: &[Seen], kind: Kind, call: &Call) -> Vec<u8> {
    let backends: Vec<String> = seen.iter().map(|one| format!("{}:{:?}", one.mounted.id, one.access)).collect();
    format!("{view:?}\0{kind:?}\0{}\0{}", backends.join(","), call.context.caller.user).into_bytes()
}

/// At most `most` entries from `start` on, and where the next page begins.
fn page(
    view: View,
    seen: &[Seen],
    given: &[Given<List>],
    kind: Kind,
    (start, most): (Position, usize),
) -> (Vec<Bytes>, Option<Position>) {
    let mut page = Vec::new();
    for (backend, (one, list)) in seen.iter().zip(given).enumerate().skip(start.backend) {
        let Ok(list) = list else { continue };
        let first = if backend == start.backend { start.entry } else { 0 };
        for (entry, offered) in list.entries.iter().enumerate().skip(first) {
            if kind == Kind::Tools && !one.allows_tool(&offered.key) {
                continue;
            }
            if page.len() >= most {
                return (page, Some(Position { backend, entry }));
            }
            page.push(match view {
                View::Merged => offered.merged.clone(),
                View::Own => offered.raw.clone(),
            });
        }
    }
    (page, None)
}

/// The result: the entries as they are, byte for byte.
fn written(kind: Kind, entries: &[Bytes], next: Option<&str>) -> Payload {
    let size: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let mut text = BytesMut::with_capacity(size + 256);
    text.put_slice(format!("{{\"{}\":[", kind.member()).as_bytes());
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            text.put_u8(b',');
        }
        text.put_slice(entry);
    }
    text.put_u8(b']');
    if let Some(next) = next {
        text.put_slice(format!(",\"nextCursor\":{}", json::quote(next)).as_bytes());
    }
    text.put_u8(b'}');
    Payload::new(Revision::NEWEST_LEGACY, text.freeze())
}

// === impl Position ===

impl Position {
    const fn pack(self) -> u64 {
        ((self.backend as u64) << 32) | (self.entry as u64 & 0xffff_ffff)
    }

    fn unpack(packed: u64) -> Self {
        let part = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
        Self { backend: part(packed >> 32), entry: part(packed & 0xffff_ffff) }
    }
}
