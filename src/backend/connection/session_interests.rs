//! Brings a server with sessions to what its clients want: `logging/setLevel`, `resources/subscribe` and
//! `resources/unsubscribe`, by one task for each connection. Each request has its own answer: none waits for another's.

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

/// Number of topics of one user that the server is asked for at once.
const AT_ONCE: usize = 16;
/// Number of levels that a server may leave unanswered and still be told the next.
const LEVELS_AT_ONCE: usize = 4;

/// Levels and topics that the server of one connection was told.
struct SessionInterests {
    connection: Arc<ServerConnection>,
    view: InterestsView,
    level: ToldLevel,
    topics: HashMap<Topic, ToldTopic>,
    /// Topics to ask for or to leave, and the number of open requests, by user.
    users: HashMap<UserId, UserQueue>,
    open: FuturesUnordered<BoxFuture<'static, InterestAnswer>>,
    attempts: u64,
}

/// The log level that the server was told.
#[derive(Default)]
struct ToldLevel {
    /// The level that it accepted or refused last.
    told: Option<Level>,
    /// The newest level that it is being told.
    telling: Option<TellingLevel>,
    /// The number of requests that have no answer.
    open: usize,
    /// The number of the newest request.
    newest: u64,
    wanted: Option<Level>,
    version: u64,
}

/// A level that the server has not answered yet.
#[derive(Clone, Copy)]
struct TellingLevel {
    level: Level,
    /// Everything else waits for the answer until then.
    until: Instant,
}

/// A topic that the server was told, or is about to be.
enum ToldTopic {
    /// It is in the queues of those who wanted it up to this change.
    Waiting { since: u64 },
    /// It was asked for.
    Asked {
        attempt: u64,
        /// Cancels the request.
        _request: DropGuard,
    },
    /// It is subscribed to, for this user among others.
    Subscribed(UserId),
    Refused {
        /// The number of changes that the answer covers.
        version: u64,
    },
    /// Nobody wants it any more: it is in the queue of this user.
    Unwanted(UserId),
    /// The server is being told that nobody wants it.
    Leaving,
}

#[derive(Default)]
struct UserQueue {
    topics: VecDeque<Topic>,
    open: usize,
}

/// The end of a request.
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
        /// `None` if it was cancelled.
        outcome: Option<Outcome>,
    },
    Left {
        user: UserId,
        topic: Topic,
    },
}

/// Keeps the server up to date as long as the connection is open.
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

    /// Finds out what the server has to be told.
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
        // not left yet
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
            // what is open is cancelled
            Some(ToldTopic::Waiting { .. } | ToldTopic::Asked { .. }) | None => {}
        }
    }

    /// Sends what can be sent: the level first, then topics.
    fn start(&mut self) {
        self.tell_level();
        if self.level.is_over() {
            // it was sent, which is all that a call can wait for
            self.connection.interests().set_level(self.level.version);
            let users: Vec<UserId> = self.users.keys().cloned().collect();
            for user in users {
                self.start_of(&user);
            }
            self.users.retain(|_, queue| queue.open > 0 || !queue.topics.is_empty());
        }
    }

    /// Sends the level, unless the answer to another may still come in time: the order of two requests counts.
    fn tell_level(&mut self) {
        let Some(wanted) = self.level.next() else { return };
        let number = self.level.begin(wanted);
        let told = self.request(Method::SetLevel, format!(r#"{{"level":"{}"}}"#, wanted.as_str()));
        self.open.push(told.map(move |outcome| InterestAnswer::Level { level: wanted, number, outcome }).boxed());
    }

    /// Sends the next requests of one user.
    fn start_of(&mut self, user: &UserId) {
        while let Some(topic) = self.users.get_mut(user).and_then(UserQueue::next) {
            let answer = match self.topics.get(&topic) {
                Some(ToldTopic::Waiting { .. }) => self.subscribe(user.clone(), topic),
                Some(ToldTopic::Unwanted(of)) if of == user => self.unsubscribe(user.clone(), topic),
                // it is asked for by another user, or not any more
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
                // a refusal is no error for the client (`translation` 3.4, LOG)
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

    /// Makes room for another request of the user.
    fn ended(&mut self, user: &UserId) {
        if let Some(queue) = self.users.get_mut(user) {
            queue.open -= 1;
        }
    }

    fn subscribed(&mut self, user: UserId, topic: Topic, attempt: u64, outcome: Outcome) {
        let is_it = |told: &ToldTopic| matches!(told, ToldTopic::Asked { attempt: asked, .. } if *asked == attempt);
        // nobody wants it any more
        if !self.topics.get(&topic).is_some_and(is_it) {
            return;
        }
        // those that joined this attempt have its answer
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

    /// True if the server has answered everything.
    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.users.is_empty()
    }

    /// A request of the gateway's own.
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
    /// The level that the server has to be told now.
    fn next(&self) -> Option<Level> {
        let has_news = match self.telling {
            Some(telling) => self.is_over() && self.open < LEVELS_AT_ONCE && self.wanted != Some(telling.level),
            None => self.wanted != self.told,
        };
        self.wanted.filter(|_| has_news)
    }

    /// Begins to tell a level; returns the number of the request.
    fn begin(&mut self, level: Level) -> u64 {
        self.telling = Some(TellingLevel { level, until: Instant::now() + LEVEL_FIRST });
        self.open += 1;
        self.newest += 1;
        self.newest
    }

    /// The answer to the request with this number.
    fn answered(&mut self, level: Level, number: u64) {
        self.open -= 1;
        if number == self.newest {
            self.told = Some(level);
            self.telling = None;
        } else if self.telling.is_none() {
            // an older level was answered last, so it may be the one that counts
            self.told = None;
        }
    }

    /// True if nothing waits for the level any more.
    fn is_over(&self) -> bool {
        self.telling.is_none_or(|telling| telling.until <= Instant::now())
    }
}

// === impl ToldTopic ===

impl ToldTopic {
    /// True if the server needs no request for a topic that is wanted since this change.
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
    /// The next topic, if another request may be open.
    fn next(&mut self) -> Option<Topic> {
        if self.open < AT_ONCE { self.topics.pop_front() } else { None }
    }
}

fn uri_params(topic: &Topic) -> String {
    format!(r#"{{"uri":{}}}"#, json::quote(topic.uri().unwrap_or_default()))
}
