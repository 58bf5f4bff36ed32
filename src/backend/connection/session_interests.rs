//! Keeps log level and subscriptions of a session up to date with what its clients want, by `logging/setLevel`,
//! `resources/subscribe` and `resources/unsubscribe`. One task for each connection. The requests about topics wait a
//! moment for the answer to a level, and otherwise run concurrently: each user has a queue with a bound of its own, so
//! one with many topics delays no other.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    call::OutboundCall,
    known_interests::{Granted, LEVEL_FIRST, TopicAnswer},
    state::ServerConnection,
};
use crate::{
    backend::interests::{Difference, InterestsView, Topic},
    mcp::{Event, Level, Method, Outcome, Payload, Revision, json},
    model::UserId,
};

/// Maximum number of open requests about topics for one user.
const AT_ONCE: usize = 16;
/// Maximum number of unanswered requests about levels.
const LEVELS_AT_ONCE: usize = 4;

/// Log level and topics as sent to the server of one connection.
struct SessionInterests {
    connection: Arc<ServerConnection>,
    view: InterestsView,
    level: ToldLevel,
    topics: HashMap<Topic, ToldTopic>,
    /// Topics to subscribe to or unsubscribe from, and the number of open requests, by user.
    users: HashMap<UserId, UserQueue>,
    open: FuturesUnordered<BoxFuture<'static, InterestAnswer>>,
    attempts: u64,
}

/// The log level as the server knows it.
#[derive(Default)]
struct ToldLevel {
    /// The level that the server last accepted or refused.
    told: Option<Level>,
    /// The newest level that was sent and has no answer.
    telling: Option<TellingLevel>,
    /// Number of requests without an answer.
    open: usize,
    /// Number of the newest request.
    newest: u64,
    wanted: Option<Level>,
    /// Number of the change that `wanted` is from.
    version: u64,
}

/// A level in a request without an answer.
#[derive(Clone, Copy)]
struct TellingLevel {
    level: Level,
    /// End of the time in which everything else waits for the answer.
    until: Instant,
}

/// State of one topic at the server.
enum ToldTopic {
    /// Queued for every user who wanted it at the change `since`.
    Waiting { since: u64 },
    /// The request to subscribe has no answer yet.
    Asked {
        /// Number of the request: the answer to an earlier one for the same topic does not count.
        attempt: u64,
        /// Dropping it cancels the request.
        _request: DropGuard,
    },
    /// Subscribed for this user, among others. The request to unsubscribe will go into the same queue.
    Subscribed(UserId),
    Refused {
        /// Number of the latest change that the refusal covers.
        version: u64,
    },
    /// No client wants it any more; the request to unsubscribe is in the queue of this user.
    Unwanted(UserId),
    /// The request to unsubscribe has no answer yet.
    Leaving,
}

#[derive(Default)]
struct UserQueue {
    topics: VecDeque<Topic>,
    open: usize,
}

/// Answer to a request of this task.
enum InterestAnswer {
    Level {
        level: Level,
        number: u64,
        outcome: Outcome,
    },
    Subscribed {
        user: UserId,
        topic: Topic,
        attempt: u64,
        /// `None` if the request was cancelled.
        outcome: Option<Outcome>,
    },
    Left {
        user: UserId,
        topic: Topic,
    },
}

/// Keeps the server up to date while the connection lives.
pub(super) async fn run(connection: Arc<ServerConnection>) {
    let view = connection.context.interests.view(&connection.context.key);
    let told = SessionInterests {
        connection,
        view,
        level: ToldLevel::default(),
        topics: HashMap::new(),
        users: HashMap::new(),
        open: FuturesUnordered::new(),
        attempts: 0,
    };
    told.run().await;
}

// === impl SessionInterests ===

impl SessionInterests {
    async fn run(mut self) {
        self.compare();
        loop {
            self.start();
            if self.is_settled() {
                self.connection.interests().set_begun();
            }
            let level_until = self.level.telling.map(|telling| telling.until).filter(|until| *until > Instant::now());
            tokio::select! {
                biased;
                () = self.view.changed() => self.compare(),
                Some(answer) = self.open.next(), if !self.open.is_empty() => self.answered(answer),
                () = sleep_until(level_until.unwrap_or_else(Instant::now)), if level_until.is_some() => {}
            }
        }
    }

    /// Compares what clients want with what the server knows, and queues the differences.
    fn compare(&mut self) {
        let topics = &self.topics;
        let knows = |topic: &Topic, since| topics.get(topic).is_some_and(|told| told.is_known(since));
        let Difference { version, level, missing, unwanted } = self.view.difference(knows, topics.keys());
        self.level.wanted = level.filter(|_| self.connection.can_log());
        self.level.version = version;
        for (topic, users) in missing {
            self.wanted(topic, users, version);
        }
        for topic in unwanted {
            self.unwanted(topic);
        }
    }

    fn wanted(&mut self, topic: Topic, users: Vec<UserId>, since: u64) {
        if topic.uri().is_none() {
            return;
        }
        // the request to unsubscribe has not been sent yet
        if let Some(ToldTopic::Unwanted(user)) = self.topics.get(&topic) {
            let subscribed = ToldTopic::Subscribed(user.clone());
            let answer = TopicAnswer { version: since, granted: Granted::Yes };
            self.connection.interests().set(&topic, Some(answer));
            self.topics.insert(topic, subscribed);
            return;
        }
        for user in users {
            self.users.entry(user).or_default().topics.push_back(topic.clone());
        }
        self.topics.insert(topic, ToldTopic::Waiting { since });
    }

    fn unwanted(&mut self, topic: Topic) {
        match self.topics.remove(&topic) {
            Some(ToldTopic::Subscribed(user)) => {
                self.users.entry(user.clone()).or_default().topics.push_back(topic.clone());
                self.connection.interests().set_leaving(&topic);
                self.topics.insert(topic, ToldTopic::Unwanted(user));
            }
            Some(told @ (ToldTopic::Unwanted(_) | ToldTopic::Leaving)) => drop(self.topics.insert(topic, told)),
            Some(ToldTopic::Refused { .. }) => self.connection.interests().set(&topic, None),
            // dropping an open request cancels it
            Some(ToldTopic::Waiting { .. } | ToldTopic::Asked { .. }) | None => {}
        }
    }

    /// Sends all requests that may be sent now, the level first.
    fn start(&mut self) {
        self.tell_level();
        if self.level.is_over() {
            // the level was sent, and calls need not wait for more
            self.connection.interests().set_level(self.level.version);
            let users: Vec<UserId> = self.users.keys().cloned().collect();
            for user in users {
                self.start_of(&user);
            }
            self.users.retain(|_, queue| queue.open > 0 || !queue.topics.is_empty());
        }
    }

    /// Sends the level, unless an earlier one may still be answered in time: their order matters.
    fn tell_level(&mut self) {
        let Some(wanted) = self.level.next() else { return };
        let number = self.level.begin(wanted);
        let told = self.request(Method::SetLevel, format!(r#"{{"level":"{}"}}"#, wanted.as_str()));
        self.open.push(told.map(move |outcome| InterestAnswer::Level { level: wanted, number, outcome }).boxed());
    }

    /// Sends the next requests about topics for one user.
    fn start_of(&mut self, user: &UserId) {
        while let Some(topic) = self.users.get_mut(user).and_then(UserQueue::next) {
            let answer = match self.topics.get(&topic) {
                Some(ToldTopic::Waiting { .. }) => self.subscribe(user.clone(), topic),
                Some(ToldTopic::Unwanted(of)) if of == user => self.unsubscribe(user.clone(), topic),
                // another user's request covers it, or no client wants it any more
                _ => continue,
            };
            if let Some(queue) = self.users.get_mut(user) {
                queue.open += 1;
            }
            self.open.push(answer);
        }
    }

    fn subscribe(&mut self, user: UserId, topic: Topic) -> BoxFuture<'static, InterestAnswer> {
        self.attempts += 1;
        let (attempt, cancelled) = (self.attempts, CancellationToken::new());
        self.topics.insert(topic.clone(), ToldTopic::Asked { attempt, _request: cancelled.clone().drop_guard() });
        let asked = self.request(Method::ResourcesSubscribe, uri_params(&topic));
        async move {
            let outcome = cancelled.run_until_cancelled(asked).await;
            InterestAnswer::Subscribed { user, topic, attempt, outcome }
        }
        .boxed()
    }

    fn unsubscribe(&mut self, user: UserId, topic: Topic) -> BoxFuture<'static, InterestAnswer> {
        let left = self.request(Method::ResourcesUnsubscribe, uri_params(&topic));
        self.topics.insert(topic.clone(), ToldTopic::Leaving);
        left.map(move |_| InterestAnswer::Left { user, topic }).boxed()
    }

    fn answered(&mut self, answer: InterestAnswer) {
        match answer {
            InterestAnswer::Level { level, number, outcome } => {
                // the client sees no error for a rejected level (`translation` 3.4, LOG)
                if let Outcome::Failed(error) = outcome
                    && !self.connection.is_over()
                {
                    let server = &self.connection.context.backend;
                    tracing::warn!(%server, %error, "the server rejected a log level");
                }
                self.level.answered(level, number);
            }
            InterestAnswer::Subscribed { user, topic, attempt, outcome } => {
                self.ended(&user);
                if let Some(outcome) = outcome {
                    self.subscribed(user, topic, attempt, outcome);
                }
            }
            InterestAnswer::Left { user, topic } => {
                self.ended(&user);
                self.topics.remove(&topic);
                self.connection.interests().set(&topic, None);
                if self.view.is_wanted(&topic) {
                    self.compare();
                }
            }
        }
    }

    /// Counts the end of a request of this user.
    fn ended(&mut self, user: &UserId) {
        if let Some(queue) = self.users.get_mut(user) {
            queue.open -= 1;
        }
    }

    fn subscribed(&mut self, user: UserId, topic: Topic, attempt: u64, outcome: Outcome) {
        let is_it = |told: &ToldTopic| matches!(told, ToldTopic::Asked { attempt: asked, .. } if *asked == attempt);
        // no client wants it any more
        if !self.topics.get(&topic).is_some_and(is_it) {
            return;
        }
        // the answer also covers clients that asked for the topic in the meantime
        let version = self.connection.context.interests.version(&self.connection.context.key);
        let (told, granted) = match outcome {
            Outcome::Complete(_) | Outcome::InputRequired(_) => (ToldTopic::Subscribed(user), Granted::Yes),
            Outcome::Failed(error) => (ToldTopic::Refused { version }, Granted::Refused(error)),
        };
        if !self.connection.is_over() {
            self.connection.interests().set(&topic, Some(TopicAnswer { version, granted }));
        }
        self.topics.insert(topic, told);
    }

    /// True if no request is open or queued.
    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.users.is_empty()
    }

    /// Sends a request of the gateway's own and returns its outcome.
    fn request(&self, method: Method, params: String) -> BoxFuture<'static, Outcome> {
        let connection = Arc::clone(&self.connection);
        let params = Payload::new(Revision::NEWEST_LEGACY, params.into());
        let events = connection.call(OutboundCall::of_gateway(method, params), connection.context.call_timeout);
        async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Ok(Event::Done(outcome)) = event {
                    return outcome;
                }
            }
            Outcome::Failed(connection.lost_error())
        }
        .boxed()
    }
}

// === impl ToldLevel ===

impl ToldLevel {
    /// The level to send now, if any.
    fn next(&self) -> Option<Level> {
        let has_news = match self.telling {
            Some(telling) => self.is_over() && self.open < LEVELS_AT_ONCE && self.wanted != Some(telling.level),
            None => self.wanted != self.told,
        };
        self.wanted.filter(|_| has_news)
    }

    /// Records that `level` is being sent; returns the number of the request.
    fn begin(&mut self, level: Level) -> u64 {
        self.telling = Some(TellingLevel { level, until: Instant::now() + LEVEL_FIRST });
        self.open += 1;
        self.newest += 1;
        self.newest
    }

    /// Records the answer to request `number`.
    fn answered(&mut self, level: Level, number: u64) {
        self.open -= 1;
        if number == self.newest {
            self.told = Some(level);
            self.telling = None;
        } else if self.telling.is_none() {
            // the server answered an older level last, so that one may apply
            self.told = None;
        }
    }

    /// True if requests about topics and the next level need not wait for a level.
    fn is_over(&self) -> bool {
        self.telling.is_none_or(|telling| telling.until <= Instant::now())
    }
}

// === impl ToldTopic ===

impl ToldTopic {
    /// True if a topic needs no new request, for clients that want it since the change `since`.
    const fn is_known(&self, since: u64) -> bool {
        match self {
            Self::Asked { .. } | Self::Subscribed(_) | Self::Leaving => true,
            Self::Waiting { since: version } | Self::Refused { version } => *version >= since,
            Self::Unwanted(_) => false,
        }
    }
}

// === impl UserQueue ===

impl UserQueue {
    /// Takes the next topic; `None` if too many requests are open.
    fn next(&mut self) -> Option<Topic> {
        if self.open < AT_ONCE { self.topics.pop_front() } else { None }
    }
}

fn uri_params(topic: &Topic) -> String {
    format!(r#"{{"uri":{}}}"#, json::quote(topic.uri().unwrap_or_default()))
}
