//! Notifications that may concern clients outside the call in which they arrive: changed lists, updated resources.
//! Servers write them to the stream of a call, which only its client reads, so the gateway routes them by method
//! (`translation` 3.4, SUB).

use super::state::ServerConnection;
use crate::{
    backend::{interests::Topic, sharing::connection_key::ConnectionKey},
    mcp::{Event, ListKind, Method, Notification, hearers::Addressees},
    model::{Delivery, Requester},
};

/// True for methods whose notifications may concern clients outside the call.
pub(super) fn is_announcement(method: &Method) -> bool {
    *method == Method::ResourceUpdated || !ListKind::changed_by(method).is_empty()
}

/// Notifies every client concerned, each once. If a session made the call `on`, its notification is in the returned
/// event, to be sent in that call: the client may have no other stream.
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

/// Notifies of a changed list. The session that made the call receives the notification on its listen too, which keeps
/// track of its list; its client sees the change once.
fn announce_change(connection: &ServerConnection, notification: &Notification) {
    let context = &connection.context;
    context.listens.notify(&context.key, notification, &Addressees::All);
    // a server at an address serves all clients: the gateway's own list may have changed along with this client's
    if context.abilities.delivery == Delivery::Exchange && !context.key.is_base() {
        context.listens.notify(&ConnectionKey::base(), notification, &Addressees::one(Requester::Gateway));
    }
}

/// Notifies the subscribers of an updated resource, or the only client of the connection. Returns true if the session
/// that made the call is one of them: it is left out here, and gets the event in its call.
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
