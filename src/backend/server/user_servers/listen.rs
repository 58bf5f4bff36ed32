//! Listens at a backend with a server for each user. When the user's access changes, they continue at the user's new
//! server.

use std::sync::{Arc, atomic::Ordering};

use futures_util::stream;
use tokio::sync::broadcast;

use super::{
    table::{UserServer, UserServers},
    unconnected,
};
use crate::{
    mcp::{
        Call, Context, Event, HeardEvent, ListKind, Method, Notification, Payload, Reply, Revision, Server as _,
        hearers::{Announcer, Hearers, HeldLevel},
        listen::Filter,
    },
    model::UserId,
};

/// Counts as a listen at a user's server, which keeps it from being ended as idle.
struct OpenListen(Arc<UserServer>);

// === impl OpenListen ===

impl OpenListen {
    fn new(server: Arc<UserServer>) -> Self {
        server.listens.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }
}

impl Drop for OpenListen {
    fn drop(&mut self) {
        self.0.listens.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl UserServers ===

impl Announcer for Arc<UserServers> {
    fn hearers(&self) -> Arc<Hearers> {
        Arc::clone(UserServers::hearers(self))
    }

    fn hold_level(&self, context: &Context) -> Box<dyn HeldLevel> {
        self.levels.hold(context, |user| self.running_of(user))
    }
}

/// Serves a call of the gateway itself. Its listen reports that all lists changed whenever the access of any user
/// changes, because the gateway caches lists of all users.
pub(super) fn of_gateway(servers: &Arc<UserServers>, call: &Call) -> Reply {
    if call.method != Method::Listen {
        return unconnected::of_gateway(servers.backend(), &call.method);
    }
    let mut changes = servers.changes();
    Reply::new(async_stream::stream! {
        loop {
            if let Err(broadcast::error::RecvError::Closed) = changes.recv().await {
                return;
            }
            for event in ListKind::CHANGES.map(changed) {
                yield event;
            }
        }
    })
}

/// Passes on an event of this backend, or of the user's own server.
pub(super) fn passed(servers: &UserServers, heard: &HeardEvent, call: &Call) -> Reply {
    let of_user = || servers.running_of(&call.context.caller.user).and_then(|server| server.listens.taken(heard));
    Reply::new(stream::iter(heard.take(&servers.announcing.backend).or_else(of_user)))
}

/// A listen of a client for tasks or resources, while the client reads. All other notifications reach the clients of
/// the user without it.
pub(super) fn of_user(servers: Arc<UserServers>, call: Call) -> Reply {
    let user = call.context.caller.user.clone();
    let mut changes = servers.changes();
    Reply::new(async_stream::stream! {
        let mut is_acknowledged = call.params.is_absent();
        loop {
            let server = servers.open(&user, None).await.ok().flatten().map(|used| Arc::clone(&used.server));
            let listening = server.map(OpenListen::new);
            let mut reply = listening.as_ref().map(|open| open.0.server.call(call.clone()));
            if reply.is_none() && !std::mem::replace(&mut is_acknowledged, true) {
                yield nothing(&call);
            }
            loop {
                let event = tokio::select! {
                    event = next(&mut reply) => event,
                    () = change_of(&user, &mut changes) => break,
                };
                match event {
                    Some(Event::Notified(told)) if told.method == Method::SubscriptionsAcknowledged => {
                        // the client has the acknowledgement of the first server
                        if !std::mem::replace(&mut is_acknowledged, true) {
                            yield Event::Notified(told);
                        }
                    }
                    Some(event @ Event::Done(_)) => {
                        yield event;
                        return;
                    }
                    Some(event) => yield event,
                    None => return,
                }
            }
            for event in ListKind::CHANGES.map(changed) {
                yield event;
            }
        }
    })
}

/// The next event of a reply; pending forever without one.
async fn next(reply: &mut Option<Reply>) -> Option<Event> {
    match reply {
        Some(reply) => reply.next_event().await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of this user's access. Missed changes count as one.
async fn change_of(user: &UserId, changes: &mut broadcast::Receiver<UserId>) {
    loop {
        match changes.recv().await {
            Ok(other) if other != *user => {}
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The acknowledgement of a server without resources and tasks.
fn nothing(call: &Call) -> Event {
    let asked = Filter::of(&call.params);
    Filter { lists: asked.lists, ..Filter::default() }.acknowledged()
}

fn changed(method: Method) -> Event {
    Event::Notified(Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) })
}
