//! A connection as a [`Server`], for the bridge that is put around it. Knows nothing of what a bridge is for.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};

use super::{call::OutboundCall, state::ServerConnection};
use crate::{
    backend::transport::NotSent,
    mcp::{Call, Event, Method, Outcome, Reply, Server, listen},
};

/// The longest that a task is waited for. Tasks are made for what takes long, and who waits asks meanwhile whether the
/// server still works at it.
const LONGEST_TASK: Duration = Duration::from_hours(24);

/// A connection as a server.
struct ConnectionServer {
    connection: Arc<ServerConnection>,
    /// How long the server may be silent in a call.
    call_timeout: Duration,
    /// Why the call was not sent; not set by the requests that follow it, about the task that it made.
    not_sent: Arc<OnceLock<NotSent>>,
}

/// Makes one call through `bridge`, which is put around the connection. The events are those of [`ServerConnection::call`].
pub(crate) fn call_through<B, S>(
    connection: &Arc<ServerConnection>,
    bridge: B,
    call: Call,
    call_timeout: Duration,
) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<B, S>
where
    B: FnOnce(Arc<dyn Server>) -> S,
    S: Server,
{
    let not_sent = Arc::new(OnceLock::new());
    let server = ConnectionServer { connection: Arc::clone(connection), call_timeout, not_sent: Arc::clone(&not_sent) };
    let reply = bridge(Arc::new(server)).call(call);
    StreamExt::map(reply, move |event| match (event, not_sent.get()) {
        (Event::Done(_), Some(not_sent)) => Err(NotSent::clone(not_sent)),
        (event, _) => Ok(event),
    })
}

impl Server for ConnectionServer {
    fn call(&self, call: Call) -> Reply {
        let (connection, method) = (Arc::clone(&self.connection), call.method.clone());
        if method == Method::Listen {
            return self.listen(&call);
        }
        let is_of_task = method.is_of_core_tasks();
        let call_timeout = if method == Method::TasksResult { LONGEST_TASK } else { self.call_timeout };
        let events = connection.call(OutboundCall::by(&call.context, &method, &call.params), call_timeout);
        let not_sent = Arc::clone(&self.not_sent);
        Reply::new(events.map(move |event| {
            event.unwrap_or_else(|reason| {
                if !is_of_task {
                    let _ = not_sent.set(reason);
                }
                Event::Done(Outcome::Failed(connection.lost_error()))
            })
        }))
    }
}

impl ConnectionServer {
    /// What is told outside of calls, of the methods that the filter names.
    fn listen(&self, call: &Call) -> Reply {
        let about = &self.connection.about;
        let told = about.listens.listen(&about.key, call.context.requester.clone(), listen::methods(&call.params));
        Reply::new(stream::iter([listen::honouring([])]).chain(told))
    }
}
