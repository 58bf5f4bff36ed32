//! A call that goes on over several requests of its client: its reply, and the requests of its server that wait for the
//! client. Knows nothing of how it is found again.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures_util::future;
use tokio::time::timeout;

use crate::mcp::{
    ClientInfo, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision,
    json::{Object, quote},
    meta,
    pending_request::PendingRequest,
};

/// The most log messages that are kept for the client's next request; the oldest goes when there are more.
const MAX_LOGS: usize = 100;

/// The time for which a call may go on whose client has gone.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// A call, and the requests of its server that are open.
pub(super) struct SuspendedCall {
    reply: Reply,
    /// The requests that have no answer yet, by the key that the client knows them by.
    open: Vec<OpenRequestExchange>,
    /// The events that came while nobody read, oldest first.
    told: VecDeque<Event>,
    /// The number of requests so far: their keys are never used twice.
    asked: u32,
    /// The number of times the server was told that its client is still busy.
    reassured: u32,
}

/// A request that is open.
struct OpenRequestExchange {
    key: String,
    request: PendingRequest,
}

/// The next event of a call.
pub(super) enum Next {
    /// The server said something.
    Event(Event),
    /// The server no longer wants one of the answers.
    Withdrawn,
}

impl SuspendedCall {
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
        } else if self.told.len() > MAX_LOGS {
            self.told.pop_front();
        }
        self.told.push_back(event);
    }

    /// Lists a request of the server.
    pub(super) fn ask(&mut self, request: PendingRequest) {
        self.asked += 1;
        self.open.push(OpenRequestExchange { key: format!("q{}", self.asked), request });
    }

    /// Whether nothing waits for the client.
    pub(super) fn is_unasked(&self) -> bool {
        self.open.is_empty()
    }

    /// The result that asks everything that is open, with the state that the client brings back (2026-07-28, MRTR).
    pub(super) fn input_required(&self, state: &str) -> Payload {
        let requests: Vec<String> = self.open.iter().map(OpenRequestExchange::text).collect();
        let (requests, state) = (requests.join(","), quote(state));
        let server = self.server();
        let meta = format!(r#"{{"{}":{server}}}"#, meta::SERVER_INFO);
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{requests}}},"requestState":{state},"_meta":{meta}}}"#
        );
        Payload::new(Revision::V2026_07_28, result.into())
    }

    /// In whose name it is asked: of the server that asks everything, else of the gateway itself.
    fn server(&self) -> String {
        let mut servers = self.open.iter().map(|open| open.request.server());
        let first = servers.next().flatten().filter(|first| servers.all(|server| server == Some(*first)));
        let gateway = || String::from_utf8_lossy(&ClientInfo::gateway_implementation()).into_owned();
        first.map_or_else(gateway, str::to_owned)
    }

    /// Gives the client's answers to whom they are for. What nobody asked is passed over; what has no answer stays open.
    pub(super) fn answer(&mut self, responses: &Object<'_>) {
        for OpenRequestExchange { key, request } in std::mem::take(&mut self.open) {
            match responses.get(&key) {
                None => self.open.push(OpenRequestExchange { key, request }),
                Some(answer) => {
                    let answer = Payload::new(Revision::V2026_07_28, Bytes::copy_from_slice(answer.as_bytes()));
                    if let Some(again) = request.answered(Ok(answer)) {
                        self.ask(*again);
                    }
                }
            }
        }
    }

    /// Tells the server that its client is still busy.
    pub(super) fn reassure(&mut self) {
        self.reassured += 1;
        self.open.iter().for_each(|open| open.request.reassure(self.reassured));
    }

    /// Tells the server that nobody answers.
    pub(super) fn refuse(&mut self, reason: &str) {
        for OpenRequestExchange { request, .. } in self.open.drain(..) {
            request.refuse(ErrorObject::internal(reason));
        }
    }

    /// Tells the server that the client has gone: a dialog was closed, anything else fails (`translation` 4b.6). The call
    /// has a moment to end by itself, and is cancelled then.
    pub(super) async fn abandon(mut self) {
        for OpenRequestExchange { request, .. } in self.open.drain(..) {
            request.abandon();
        }
        let ends = async { while !matches!(self.live().await, Next::Event(Event::Done(_))) {} };
        let _ = timeout(FINISH_TIMEOUT, ends).await;
    }
}

impl OpenRequestExchange {
    fn text(&self) -> String {
        let (method, params) = (self.request.method(), self.request.shown());
        let params = if params.is_absent() {
            String::new()
        } else {
            format!(r#","params":{}"#, String::from_utf8_lossy(params.json()))
        };
        format!(r#"{}:{{"method":"{method}"{params}}}"#, quote(&self.key))
    }
}

/// Waits until one of the requests is withdrawn, and returns its place.
async fn withdrawn(open: &mut [OpenRequestExchange]) -> usize {
    if open.is_empty() {
        return future::pending().await;
    }
    let waits = open.iter_mut().map(|open| Box::pin(open.request.withdrawn()));
    let ((), place, _) = future::select_all(waits).await;
    place
}
