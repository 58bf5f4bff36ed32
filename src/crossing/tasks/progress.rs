//! Progress of one call, under a token of the gateway that is unique to it.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::mcp::{
    Event, Method, Notification, Payload,
    json::{At, quote},
    meta,
};

static LAST: AtomicU64 = AtomicU64::new(0);

/// The token of one call, and the client's own that it replaces.
pub(super) struct OwnToken(Option<Replaced>);

struct Replaced {
    own: String,
    clients: Bytes,
}

impl OwnToken {
    /// Replaces the client's token; a call without one stays as it is.
    pub(super) fn replace(params: &Payload) -> (Self, Payload) {
        let Some(clients) = meta::progress_token(params) else { return (Self(None), params.clone()) };
        let own = quote(&format!("task-call-{}", LAST.fetch_add(1, Ordering::Relaxed)));
        let params = meta::with_progress_token(params, &own);
        (Self(Some(Replaced { own, clients })), params)
    }

    /// True for progress of this call.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        let Event::Notified(Notification { method: Method::Progress, params }) = event else { return false };
        let Some(Replaced { own, .. }) = &self.0 else { return false };
        params.member("progressToken") == Some(own.as_str())
    }

    /// The event with the client's token.
    pub(super) fn restore(&self, event: Event) -> Event {
        match (event, &self.0) {
            (Event::Notified(Notification { method: Method::Progress, params }), Some(Replaced { clients, .. })) => {
                let clients = String::from_utf8_lossy(clients).into_owned();
                let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(clients.clone()));
                Event::Notified(Notification { method: Method::Progress, params })
            }
            (event, _) => event,
        }
    }
}
