//! A connection as a [`Server`], so that a decorator fits around it.

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

/// Maximum duration of a task: tasks are meant for long work, and the gateway polls the server.
const MAX_TASK_TIME: Duration = Duration::from_hours(24);

struct ConnectionServer {
    connection: Arc<ServerConnection>,
    /// Maximum silence of the server in a call.
    call_timeout: Duration,
    /// Why the call was not sent. Later requests about its task do not set this.
    not_sent: Arc<OnceLock<NotSent>>,
}

/// Makes one call through `bridge`, a decorator around the connection. The events are those of
/// [`ServerConnection::call`].
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
        let call_timeout = if method == Method::TasksResult { MAX_TASK_TIME } else { self.call_timeout };
        let events = connection.call(OutboundCall::by(&call), call_timeout);
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
    /// Opens a listen for the methods in the filter.
    fn listen(&self, call: &Call) -> Reply {
        let context = &self.connection.context;
        let told = context.listens.listen(&context.key, &call.context, listen::methods(&call.params));
        Reply::new(stream::iter([listen::honouring([])]).chain(told))
    }
}
