//! Serves calls at a server without sessions (2026-07-28): self-contained requests, and notifications by listen. All
//! listens on a connection share one `subscriptions/listen`.

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, stream};

use super::route::Route;
use crate::{
    backend::{
        connection::ServerConnection, connection_key::ConnectionKey, error::too_many_subscriptions,
        external_backend::ExternalBackend, pool::LeasedConnection, subscriptions::Topic,
    },
    mcp::{Call, Context, Era, ErrorObject, Event, Method, Outcome, Reply, Server, listen},
    model::Requester,
};

/// The era of such servers.
const ERA: Era = Era::Modern;

/// A backend whose server has no sessions.
#[derive(Clone)]
pub(super) struct RequestServer(pub(super) Arc<ExternalBackend>);

/// Resources and tasks of one listen that the server notifies about. Dropping it unsubscribes.
struct Interest {
    backend: Arc<ExternalBackend>,
    key: ConnectionKey,
    holder: Requester,
    topics: Vec<Topic>,
}

/// Further notifications of a listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breadth {
    /// All for its client.
    Everything,
    /// Those of some methods. For the gateway's own listen, which ends if the server rejects `subscriptions/listen`.
    Methods,
}

impl Server for RequestServer {
    fn call(&self, call: Call) -> Reply {
        let route = self.0.route(ERA, &call);
        self.clone().serve(route, call)
    }
}

impl RequestServer {
    /// Serves one call.
    pub(super) fn serve(self, route: Route, call: Call) -> Reply {
        match call.method {
            Method::Initialize => Reply::failed(ErrorObject::method_not_found("initialize")),
            Method::Listen => self.listen(route.key, call),
            _ => self.0.serve(route, call),
        }
    }

    /// Serves a listen. It ends if the server turns out to have sessions.
    fn listen(self, key: ConnectionKey, call: Call) -> Reply {
        let Call { params, context, .. } = call;
        let methods = listen::methods(&params);
        let resources = listen::resources(&params).into_iter().map(Topic::Resource);
        let topics: Vec<Topic> = resources.chain(listen::task_ids(&params).into_iter().map(Topic::Task)).collect();
        let breadth = if methods.is_empty() { Breadth::Everything } else { Breadth::Methods };
        let heard = self.0.listens.listen(&key, &context, methods);
        let heard = heard.take_until(self.0.era.clone().changed_from(ERA));
        match (topics.is_empty(), breadth) {
            (true, Breadth::Everything) => Reply::new(heard),
            (true, Breadth::Methods) => Reply::new(stream::iter([listen::honouring([])]).chain(heard)),
            (false, _) => self.listen_for((key, topics), (context, breadth), heard),
        }
    }

    /// The stream of a listen with `topics`: an acknowledgement of those that the server accepts, then `heard`.
    fn listen_for(
        self,
        (key, topics): (ConnectionKey, Vec<Topic>),
        (context, breadth): (Context, Breadth),
        heard: impl Stream<Item = Event> + Send + 'static,
    ) -> Reply {
        Reply::new(async_stream::stream! {
            let mut interest = Interest { backend: self.0, key, holder: context.requester.clone(), topics: Vec::new() };
            match Box::pin(interest.add(topics, &context)).await {
                Err(error) if breadth == Breadth::Methods && interest.topics.is_empty() => {
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
                // the accepted ones are acknowledged
                Err(_) | Ok(()) => {}
            }
            yield interest.acknowledged();
            for await event in heard {
                yield event;
            }
            drop(interest);
        })
    }
}

// === impl Interest ===

impl Interest {
    /// Adds those `topics` that the server accepts.
    ///
    /// # Errors
    ///
    /// The first reason for a rejected topic, unless the server left it out itself.
    async fn add(&mut self, topics: Vec<Topic>, context: &Context) -> Result<(), ErrorObject> {
        let (backend, key) = (Arc::clone(&self.backend), self.key.clone());
        let leased = backend.connection((ERA, &key), None, context).await;
        let LeasedConnection { lease: _lease, connection } = leased.map_err(|error| backend.not_begun(error))?;
        let mut refused = Ok(());
        for topic in topics {
            match self.refusal(&topic, &connection) {
                None => {
                    backend.subscriptions.subscribed(&key, self.holder.clone(), topic.clone());
                    self.topics.push(topic);
                }
                Some(error) => refused = refused.and(Err(error)),
            }
        }
        if self.topics.is_empty() {
            return refused;
        }
        let acknowledged_of = match connection.listening() {
            Some(listening) => listening.acknowledged_of(self.topics.clone()).await,
            None => None,
        };
        let Some(acknowledged_of) = acknowledged_of else {
            self.narrow(Vec::new());
            let reason = "it does not say in time whether it tells when this resource changes; try again";
            return refused.and(Err(backend.unavailable(reason)));
        };
        self.narrow(acknowledged_of);
        refused
    }

    /// The reason why this server cannot notify about `topic`.
    fn refusal(&self, topic: &Topic, connection: &ServerConnection) -> Option<ErrorObject> {
        let is_offered = match topic {
            Topic::Resource(_) => connection.server().is_some_and(|server| server.offers("resources", "subscribe")),
            Topic::Task(_) => connection.tasks().has_tasks(),
        };
        if !is_offered {
            return Some(ErrorObject::method_not_found(Method::ResourcesSubscribe.as_str()));
        }
        (!self.backend.subscriptions.has_room(&self.key)).then(too_many_subscriptions)
    }

    /// The acknowledgement of these topics.
    fn acknowledged(&self) -> Event {
        listen::acknowledging(self.topics.iter().filter_map(Topic::uri), self.topics.iter().filter_map(Topic::task))
    }

    /// Removes all topics but these.
    fn narrow(&mut self, kept: Vec<Topic>) {
        let left = std::mem::replace(&mut self.topics, kept);
        self.leave(left.into_iter().filter(|topic| !self.topics.contains(topic)));
    }

    fn leave(&self, topics: impl Iterator<Item = Topic>) {
        let free =
            topics.filter(|topic| self.backend.subscriptions.unsubscribed(&self.key, &self.holder, topic)).count();
        if free > 0
            && let Some(connection) = self.backend.pool.present(&self.key)
            && let Some(listening) = connection.listening()
        {
            listening.update_filter();
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let topics = std::mem::take(&mut self.topics);
        self.leave(topics.into_iter());
    }
}
