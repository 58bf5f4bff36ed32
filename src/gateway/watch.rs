//! The gateway's own listen at one backend, which keeps the catalog up to date.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt;
use tokio::time::{Instant, sleep};

use super::catalog::Catalog;
use crate::mcp::{Call, ErrorObject, Event, ListKind, Method, Outcome, Payload, Reply, Revision};

/// Changes within this time are merged.
const TOGETHER: Duration = Duration::from_millis(100);
/// Interval between retries of missing lists.
const AGAIN: Duration = Duration::from_secs(10);
/// Minimum and maximum pause before an ended listen is reopened.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Fetches the backend's lists, then follows its changes until the catalog is stopped.
pub(crate) async fn watch(catalog: Arc<Catalog>) {
    let stop = catalog.stop().clone();
    stop.run_until_cancelled(async {
        tokio::join!(warm(&catalog), follow(&catalog));
    })
    .await;
}

/// Fetches missing lists again and again, so that a backend that starts late is listed without a request.
async fn warm(catalog: &Catalog) {
    loop {
        catalog.warm();
        sleep(AGAIN).await;
    }
}

async fn follow(catalog: &Catalog) {
    let mut pause = PAUSE.0;
    loop {
        let began = Instant::now();
        let call = Call {
            method: Method::Listen,
            params: Payload::absent(Revision::NEWEST_LEGACY),
            context: catalog.own_context(),
        };
        let error = hear(catalog, catalog.server().call(call)).await;
        let error = error.as_ref().map(tracing::field::display);
        tracing::debug!(server = %catalog.backend(), error, "a server ended the gateway's listen");
        pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        sleep(pause).await;
        // changes were not reported while no listen was open
        catalog.changed(&ListKind::ALL);
    }
}

/// Follows one listen to its end.
async fn hear(catalog: &Catalog, mut reply: Reply) -> Option<ErrorObject> {
    let mut changed: Vec<ListKind> = Vec::new();
    let mut due = pin!(sleep(TOGETHER));
    loop {
        tokio::select! {
            event = StreamExt::next(&mut reply) => match event {
                Some(Event::Notified(told)) => {
                    if changed.is_empty() {
                        due.as_mut().reset(Instant::now() + TOGETHER);
                    }
                    changed.extend(ListKind::changed_by(&told.method));
                }
                // no client can answer: dropping the server request refuses it
                Some(Event::Asked(_)) => {}
                Some(Event::Done(Outcome::Failed(error))) => return Some(error),
                Some(Event::Done(_)) | None => return None,
            },
            () = due.as_mut(), if !changed.is_empty() => catalog.changed(&std::mem::take(&mut changed)),
        }
    }
}
