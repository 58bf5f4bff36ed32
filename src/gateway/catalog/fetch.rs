//! Asking a backend for what goes on a rack, page by page to the end. Knows nothing of who looks at it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use metrics::counter;
use tokio::time::{sleep, timeout};

use super::{About, Catalog, Change, Kind, List, Rack};
use crate::mcp::{Call, Era, ErrorObject, Method, Outcome, Payload, Revision};

/// The longest that one fetch may take; a backend's start is within it.
const LONGEST: Duration = Duration::from_mins(5);
/// The rest between two fetches of a list that went stale meanwhile.
const REST: Duration = Duration::from_millis(100);
/// The most pages of one list.
const MOST_PAGES: usize = 1_000;
/// The most entries of one list.
const MOST_ENTRIES: usize = 100_000;
/// The most bytes of one list.
const MOST_BYTES: usize = 64 << 20;

/// Fetches `server/discover` until it is not stale.
pub(super) async fn about(catalog: Arc<Catalog>, rack: Arc<Rack>) {
    loop {
        let params = Payload::absent(Revision::NEWEST_LEGACY);
        let asked = bounded(&catalog, ask(&catalog, &rack, Method::Discover, params)).await;
        let known = rack.about.look(Duration::MAX).failure;
        note(&catalog, &Method::Discover, asked.as_ref().err().filter(|error| known.as_ref() != Some(error)));
        let settled = rack.about.finish(asked.map(About::new));
        if let (true, Some(about)) = (rack.is_own(), rack.about.value()) {
            catalog.note_introduction(&about);
        }
        if !settled.again || !rack.about.begin() {
            return;
        }
        sleep(REST).await;
    }
}

/// Fetches a list until it is not stale, and tells of a change.
pub(super) async fn list(catalog: Arc<Catalog>, rack: Arc<Rack>, kind: Kind) {
    loop {
        let asked = bounded(&catalog, whole(&catalog, &rack, kind)).await;
        // what keeps the backend from saying what it offers was told already
        let known = rack.about.look(Duration::MAX).failure.or_else(|| rack.list(kind).look(Duration::MAX).failure);
        note(&catalog, &kind.method(), asked.as_ref().err().filter(|error| known.as_ref() != Some(error)));
        // before the change is told, so that nobody is forgotten who looks because of it
        let wanted = rack.wanted[kind as usize].swap(false, Ordering::Relaxed);
        if let Ok(list) = &asked {
            catalog.omissions.note(&catalog.backend, kind, list.left_out());
        }
        let settled = rack.list(kind).finish(asked);
        if !settled.changed && wanted {
            rack.wanted[kind as usize].store(true, Ordering::Relaxed);
        }
        if settled.changed {
            let change = Change { backend: catalog.backend.clone(), rack: rack.key.clone(), kind };
            // nobody listens: nobody is told
            let _ = catalog.settings.changes.send(change);
        }
        if !settled.again || !rack.list(kind).begin() {
            return;
        }
        sleep(REST).await;
    }
}

async fn bounded<T>(
    catalog: &Catalog,
    fetch: impl Future<Output = Result<T, ErrorObject>> + Send,
) -> Result<T, ErrorObject> {
    let failed = |why: &str| {
        let message = format!("The list of backend `{}` could not be fetched: {why}.", catalog.backend);
        ErrorObject::with_data(
            ErrorObject::INTERNAL_ERROR,
            &message,
            &serde_json::json!({ "backend": catalog.backend.as_str() }),
        )
    };
    let outcome = match catalog.settings.cancel.run_until_cancelled(timeout(LONGEST, fetch)).await {
        None => Err(failed("the gateway is shutting down")),
        Some(Err(_)) => Err(failed("it took longer than 5 minutes; see whether the backend is well")),
        Some(Ok(outcome)) => outcome,
    };
    let word = if outcome.is_ok() { "ok" } else { "failed" };
    counter!("lockkeeper_catalog_fetches_total", "backend" => catalog.backend.to_string(), "outcome" => word)
        .increment(1);
    outcome
}

/// Logs a failure that is news.
fn note(catalog: &Catalog, method: &Method, news: Option<&ErrorObject>) {
    if let Some(error) = news {
        tracing::warn!(backend = %catalog.backend, %method, %error, "a backend could not be asked what it offers");
    }
}

async fn whole(catalog: &Arc<Catalog>, rack: &Arc<Rack>, kind: Kind) -> Result<List, ErrorObject> {
    if !known(catalog, rack).await?.has(kind.capability()) {
        return Ok(List::empty());
    }
    let mut list = List::empty();
    let (mut pages, mut bytes) = (0, 0);
    let mut cursor: Option<String> = None;
    loop {
        let params = match &cursor {
            None => Payload::absent(Revision::NEWEST_LEGACY),
            Some(cursor) => Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "cursor": cursor })),
        };
        let page = match ask(catalog, rack, kind.method(), params).await {
            // servers that have resources often have no templates
            Err(error) if error.code() == ErrorObject::METHOD_NOT_FOUND => return Ok(List::empty()),
            page => page?,
        };
        catalog.legacy.store(page.revision.era() == Era::Legacy, Ordering::Relaxed);
        bytes += page.json().len();
        pages += 1;
        list.add(kind, &catalog.backend, &page);
        let next = page.string("nextCursor");
        // A server that gives the same cursor again would be asked for ever.
        if next.is_none() || next == cursor {
            break;
        }
        if pages >= MOST_PAGES || list.len() >= MOST_ENTRIES || bytes >= MOST_BYTES {
            let entries = list.len();
            tracing::warn!(backend = %catalog.backend, method = %kind.method(), entries, "a list has no end; it was cut");
            break;
        }
        cursor = next;
    }
    Ok(list)
}

/// What the backend says of itself, fetched first where it is not known for sure.
async fn known(catalog: &Arc<Catalog>, rack: &Arc<Rack>) -> Result<Arc<About>, ErrorObject> {
    let mut look = catalog.look_about(rack);
    if look.began.is_some() {
        rack.about.settled().await;
        look = rack.about.look(catalog.settings.refresh);
    }
    match (look.value, look.failure) {
        (Some(about), _) => Ok(about),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(ErrorObject::internal("the backend did not say what it offers")),
    }
}

async fn ask(catalog: &Catalog, rack: &Rack, method: Method, params: Payload) -> Result<Payload, ErrorObject> {
    let call = Call { method, params, context: rack.context.clone() };
    match catalog.server.call(call).outcome().await {
        Outcome::Complete(result) => Ok(result),
        Outcome::Failed(error) => Err(error),
        Outcome::InputRequired(_) => Err(ErrorObject::internal("the backend asks for input where it may not")),
    }
}
