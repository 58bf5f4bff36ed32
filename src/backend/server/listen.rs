//! Listens at one backend, of either era: notifications for a client, and the topics that the client subscribes to.

use std::{sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt as _,
    future::join_all,
    stream::{self, BoxStream},
};
use tokio::time::{Instant, timeout_at};

use super::{
    call_meters::{CallEnd, RunningCall},
    external_backend::ExternalBackend,
};
use crate::{
    backend::{
        connection::{ServerConnection, known_interests::Granted},
        error::{DispatchError, too_many_subscriptions},
        interests::{Interest, NoRoom, Topic},
        sharing::connection_key::ConnectionKey,
    },
    mcp::{Call, Context, Era, ErrorObject, Event, LogLevel, Method, Outcome, Reply, listen},
    model::OnLoss,
};

/// One listen at a backend.
pub(super) struct ServerListen {
    pub(super) backend: Arc<ExternalBackend>,
    pub(super) era: Era,
    pub(super) key: ConnectionKey,
    pub(super) call: Call,
    /// Topics that the client asks for, of the kinds that servers of this era support.
    pub(super) topics: Vec<Topic>,
    /// Maximum wait for the server's answer about a topic.
    pub(super) patience: Duration,
    /// Level of log messages outside of calls.
    pub(super) level: LogLevel,
}

/// Topics that the server accepted, and the first error for one that it refused.
#[derive(Default)]
struct Accepted {
    topics: Vec<Topic>,
    refused: Option<ErrorObject>,
}

// === impl ServerListen ===

impl ServerListen {
    /// Serves the listen: all notifications for its client outside of calls, or only the methods in its filter. Ends if
    /// the server's era changes.
    pub(super) fn serve(self) -> Reply {
        let methods = listen::methods(&self.call.params);
        let begins = if methods.is_empty() { None } else { Some(listen::honouring([])) };
        let is_of_methods = begins.is_some();
        let heard = self.heard(methods).take_until(self.backend.era.clone().changed_from(self.era));
        if self.topics.is_empty() {
            return Reply::new(stream::iter(begins).chain(heard));
        }
        self.serve_topics(is_of_methods, heard)
    }

    fn heard(&self, methods: Vec<Method>) -> BoxStream<'static, Event> {
        if methods == [Method::SubscriptionsAcknowledged] {
            return stream::pending().boxed();
        }
        let is_of_all = methods.is_empty();
        let heard = self.backend.listens.listen(&self.key, &self.call.context, methods);
        match &self.level {
            LogLevel::Session(_) if is_of_all => self.with_level(heard).boxed(),
            LogLevel::Session(_) | LogLevel::Request(_) => heard.boxed(),
        }
    }

    /// Adds the session's log level to the listen, and follows its changes.
    fn with_level<S>(&self, heard: S) -> impl Stream<Item = Event> + Send + use<S>
    where
        S: Stream<Item = Event> + Send + 'static,
    {
        let (mut level, mut interest) = (self.level.clone(), self.interest());
        async_stream::stream! {
            let mut heard = std::pin::pin!(heard);
            interest.hold_level(&level);
            loop {
                tokio::select! {
                    biased;
                    () = level.changed() => interest.level_changed(),
                    event = heard.next() => match event {
                        Some(event) => yield event,
                        None => return,
                    },
                }
            }
        }
    }

    fn interest(&self) -> Interest {
        let Context { requester, caller, .. } = &self.call.context;
        self.backend.interests.of(&self.key, requester.clone(), caller.user.clone())
    }

    /// Replies with an acknowledgement of the topics that the server accepts, then with `heard`. A listen with a filter
    /// fails if a topic was refused and none accepted.
    fn serve_topics(self, is_of_methods: bool, heard: impl Stream<Item = Event> + Send + 'static) -> Reply {
        Reply::new(async_stream::stream! {
            let mut interest = self.interest();
            let accepted = match Box::pin(self.subscribe(&mut interest)).await {
                Ok(accepted) => accepted,
                Err(DispatchError::EraChanged) => {
                    drop(interest);
                    for await event in Arc::clone(&self.backend).call_again(self.call.clone()) {
                        yield event;
                    }
                    return;
                }
                Err(DispatchError::Unavailable(error)) => Accepted { refused: Some(error), ..Accepted::default() },
            };
            interest.narrow(&accepted.topics);
            match accepted.refused {
                Some(error) if is_of_methods && accepted.topics.is_empty() => {
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
                // acknowledge the accepted ones
                Some(_) | None => {}
            }
            let topics = accepted.topics.iter();
            yield listen::acknowledging(topics.clone().filter_map(Topic::uri), topics.filter_map(Topic::task));
            for await event in heard {
                yield event;
            }
            drop(interest);
        })
    }

    /// Adds the topics to `interest` and waits for the server's answer to each. If the connection is lost, waits for
    /// the next one, once.
    async fn subscribe(&self, interest: &mut Interest) -> Result<Accepted, DispatchError> {
        let (running, deadline) = (RunningCall::begin(&self.backend.meters), Instant::now() + self.patience);
        let mut left = u8::from(self.backend.spec.on_loss == OnLoss::Reinit);
        loop {
            let leased = self.backend.connection(self.era, &self.key, None, &self.call.context).await?;
            let connection = &leased.connection;
            let answers = join_all(self.topics.iter().map(|topic| {
                let wanted = want(topic, interest, connection);
                async move {
                    let answered = connection.interests().answer(topic, wanted?);
                    match timeout_at(deadline, answered).await {
                        Ok(Granted::Yes) => Ok(true),
                        Ok(Granted::LeftOut) => Ok(false),
                        Ok(Granted::Refused(error)) => Err(error),
                        Err(_) => Err(self.late()),
                    }
                }
            }));
            tokio::select! {
                biased;
                answers = answers => return Ok(self.accepted(answers, &running)),
                _ = connection.over() => match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    None => return Err(DispatchError::Unavailable(connection.lost_error())),
                },
            }
        }
    }

    fn late(&self) -> ErrorObject {
        let reason = "it does not say in time whether it tells when this resource changes; try again";
        self.backend.unavailable(reason)
    }

    fn accepted(&self, answers: Vec<Result<bool, ErrorObject>>, running: &RunningCall) -> Accepted {
        let mut accepted = Accepted::default();
        for (topic, answer) in self.topics.iter().zip(answers) {
            if topic.uri().is_some() {
                running.ended(&Method::ResourcesSubscribe, if answer.is_ok() { CallEnd::Ok } else { CallEnd::Error });
            }
            match answer {
                Ok(true) => accepted.topics.push(topic.clone()),
                Ok(false) => {}
                Err(error) => accepted.refused = accepted.refused.or(Some(error)),
            }
        }
        accepted
    }
}

/// Adds a topic; returns the number of the change.
fn want(topic: &Topic, interest: &mut Interest, connection: &ServerConnection) -> Result<u64, ErrorObject> {
    if !connection.offers(topic) {
        return Err(ErrorObject::method_not_found(Method::ResourcesSubscribe.as_str()));
    }
    interest.want(topic.clone()).map_err(|NoRoom| too_many_subscriptions())
}
