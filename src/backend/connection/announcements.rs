//! Notifications that concern more clients than the one in whose call they come: lists that changed, resources that were
//! updated. Servers write them to the stream of a call, where only its client would hear them, so they go by their kind
//! (`translation` 3.4, SUB).

use super::state::ServerConnection;
use crate::{
    backend::{interests::Topic, sharing::connection_key::ConnectionKey},
    mcp::{Event, ListKind, Method, Notification, hearers::Addressees},
    model::{Delivery, Requester},
};

/// True for notifications of these kinds.
pub(super) fn is_announcement(method: &Method) -> bool {
    *method == Method::ResourceUpdated || !ListKind::changed_by(method).is_empty()
}

/// Tells all whom the notification concerns, each client once. One with a session that made the call `on` hears of it there,
/// in the returned event: it may have no other stream.
pub(super) fn announce(
    connection: &ServerConnection,
    notification: Notification,
    on: Option<u64>,
) -> Option<(u64, Event)> {
    let caller = on.and_then(|call| connection.calls.read(call, |open| open.holder.clone()));
    let caller = caller.filter(|holder| matches!(holder, Requester::Session(_)));
    let is_for_caller = if notification.method == Method::ResourceUpdated {
        announce_update(connection, &notification, caller.as_ref())
    } else {
        announce_change(connection, &notification);
        true
    };
    let call = on.filter(|_| caller.is_some() && is_for_caller)?;
    Some((call, Event::Notified(notification)))
}

/// Tells of a changed list. The session that made the call hears of it on its own listen too, which knows its list, and shows
/// its client one of both.
fn announce_change(connection: &ServerConnection, notification: &Notification) {
    let context = &connection.context;
    context.listens.notify(&context.key, notification, &Addressees::All);
    // behind an address one server serves all: the gateway's own list may have changed with that of this client
    if context.abilities.delivery == Delivery::Exchange && !context.key.is_base() {
        context.listens.notify(&ConnectionKey::base(), notification, &Addressees::one(Requester::Gateway));
    }
}

/// Tells of an updated resource those who subscribed to it, or the only client of the connection. Returns true if the session
/// that made the call is among them, which is not told here.
fn announce_update(connection: &ServerConnection, notification: &Notification, caller: Option<&Requester>) -> bool {
    let context = &connection.context;
    let (addressees, is_for_caller) = match caller {
        None if context.is_of_one_client => (Addressees::All, false),
        Some(caller) if context.is_of_one_client => (Addressees::But(caller.clone()), true),
        caller => {
            let topic = notification.params.string("uri").map(Topic::Resource);
            let holders = topic.map(|topic| context.interests.holders(&context.key, &topic));
            let mut holders = holders.unwrap_or_default();
            let is_for_caller = caller.is_some_and(|caller| holders.remove(caller));
            (Addressees::Only(holders), is_for_caller)
        }
    };
    context.listens.notify(&context.key, notification, &addressees);
    is_for_caller
}
