//! A call that goes on over several requests of its client: its reply, and what of it waits for the client. Knows nothing
//! of how it is found again.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures_util::future;
use tokio::time::timeout;

use crate::{
    frontend::questions::Asking,
    mcp::{
        ClientInfo, ErrorObject, Event, Method, Outcome, Payload, Question, Reply, Revision,
        json::{Object, quote},
        meta,
    },
};

/// How many log messages are kept for the client's next request; the oldest goes when there are more.
const MOST_LOGS: usize = 100;

/// How long a call may go on whose client has gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// A call, and what of it waits.
pub(super) struct Held {
    reply: Reply,
    /// The questions that have no answer yet, by the key that the client knows them by.
    open: Vec<Open>,
    /// What was said while nobody read, oldest first.
    told: VecDeque<Event>,
    /// How many questions were asked so far: their keys are never used twice.
    asked: u32,
    /// How often the server was told that its client is still at it.
    reassured: u32,
}

/// A question that waits.
struct Open {
    key: String,
    asking: Asking,
}

/// What happened next.
pub(super) enum Next {
    /// The server said something.
    Event(Event),
    /// The server no longer wants one of the answers.
    Withdrawn,
}

impl Held {
    /// A call that has just begun.
    pub(super) fn new(reply: Reply) -> Self {
        Self { reply, open: Vec::new(), told: VecDeque::new(), asked: 0, reassured: 0 }
    }

    /// What happens next: first what was kept.
    pub(super) async fn next(&mut self) -> Next {
        match self.told.pop_front() {
            Some(event) => Next::Event(event),
            None => self.live().await,
        }
    }

    /// What happens next at the server. Nothing is lost when the wait is dropped.
    pub(super) async fn live(&mut self) -> Next {
        let Self { reply, open, .. } = self;
        tokio::select! {
            biased;
            gone = withdrawn(open) => {
                open.remove(gone);
                Next::Withdrawn
            }
            event = reply.next_event() => Next::Event(event.unwrap_or_else(|| {
                Event::Done(Outcome::Failed(ErrorObject::internal("the call ended without an answer")))
            })),
        }
    }

    /// Keeps what is said until somebody reads: of progress the last, of log messages the latest.
    pub(super) fn keep(&mut self, event: Event) {
        let is = |event: &Event, method: &Method| matches!(event, Event::Notified(told) if told.method == *method);
        if is(&event, &Method::Progress) {
            self.told.retain(|kept| !is(kept, &Method::Progress));
        } else if self.told.len() > MOST_LOGS {
            self.told.pop_front();
        }
        self.told.push_back(event);
    }

    /// Lists a question.
    pub(super) fn ask(&mut self, asking: Asking) {
        self.asked += 1;
        self.open.push(Open { key: format!("q{}", self.asked), asking });
    }

    /// Whether nothing waits for the client.
    pub(super) fn is_unasked(&self) -> bool {
        self.open.is_empty()
    }

    /// The result that asks everything that is open, and with which state the client comes back (2026-07-28, MRTR).
    pub(super) fn input_required(&self, state: &str) -> Bytes {
        let requests: Vec<String> = self.open.iter().map(Open::request).collect();
        let (requests, state) = (requests.join(","), quote(state));
        let server = self.server();
        let meta = format!(r#"{{"{}":{server}}}"#, meta::SERVER_INFO);
        format!(
            r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":{state},"_meta":{meta}}}"#
        )
        .into()
    }

    /// In whose name it is asked: of the server that asks everything, else of the gateway itself.
    fn server(&self) -> String {
        let mut servers = self.open.iter().map(|open| open.asking.server());
        let first = servers.next().flatten().filter(|first| servers.all(|server| server == Some(*first)));
        let gateway = || String::from_utf8_lossy(&ClientInfo::gateway_implementation()).into_owned();
        first.map_or_else(gateway, str::to_owned)
    }

    /// Gives the client's answers to whom they are for. What nobody asked is passed over; what has no answer stays open.
    pub(super) fn answer(&mut self, responses: &Object<'_>) {
        for Open { key, asking } in std::mem::take(&mut self.open) {
            match responses.get(&key) {
                None => self.open.push(Open { key, asking }),
                Some(answer) => {
                    let answer = Payload::new(Revision::V2026_07_28, Bytes::copy_from_slice(answer.as_bytes()));
                    if let Some(again) = asking.answered(Ok(answer)) {
                        self.ask(*again);
                    }
                }
            }
        }
    }

    /// Tells the server that its client is still at it.
    pub(super) fn reassure(&mut self) {
        self.reassured += 1;
        self.open.iter().for_each(|open| open.asking.reassure(self.reassured));
    }

    /// Tells the server that nobody answers.
    pub(super) fn refuse(&mut self, reason: &str) {
        for Open { asking, .. } in self.open.drain(..) {
            asking.refuse(ErrorObject::internal(reason));
        }
    }

    /// Tells the server that the client has gone: a dialog was closed, anything else fails (`translation` 4b.6). The call
    /// has a moment to end by itself, and is cancelled then.
    pub(super) async fn abandon(mut self) {
        for Open { asking, .. } in self.open.drain(..) {
            asking.abandon();
        }
        let ends = async { while !matches!(self.live().await, Next::Event(Event::Done(_))) {} };
        let _ = timeout(FAREWELL, ends).await;
    }
}

impl Open {
    fn request(&self) -> String {
        let (method, params) = (self.asking.method(), self.asking.shown());
        let params = if params.is_absent() {
            String::new()
        } else {
            format!(r#","params":{}"#, String::from_utf8_lossy(params.json()))
        };
        format!(r#"{}:{{"method":"{method}"{params}}}"#, quote(&self.key))
    }
}

/// Waits until one of the questions is taken back, and gives its place.
async fn withdrawn(open: &mut [Open]) -> usize {
    if open.is_empty() {
        return future::pending().await;
    }
    let waits = open.iter_mut().map(|open| Box::pin(open.asking.withdrawn()));
    let ((), place, _) = future::select_all(waits).await;
    place
}

/// The question as it is, for whoever may not ask.
pub(super) fn turn_away(question: Question, error: ErrorObject) {
    metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
    question.answer.give(Err(error));
}
