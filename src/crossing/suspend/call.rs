//! A call that spans several requests of its client: its reply, and the server requests that wait for the client.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures_util::future;
use tokio::time::timeout;

use crate::{
    mcp::{
        ClientInfo, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision,
        json::{Object, quote},
        meta,
        pending_request::PendingRequest,
    },
    support::{
        Account,
        byte_queue::Queued as _,
        memory::{Claim, Exhausted},
    },
};

/// Maximum number of log messages that are kept for the client's next request; the oldest are dropped.
const MAX_LOGS: usize = 100;
/// The same in bytes.
const MAX_LOG_BYTES: usize = 1024 * 1024;

/// A call whose client has disconnected may take this long to finish.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// A call, and the open requests of its server.
pub(super) struct SuspendedCall {
    reply: Reply,
    /// Unanswered requests, by the key that the client got.
    open: Vec<OpenRequestExchange>,
    /// Events that are not read yet, oldest first.
    told: VecDeque<Event>,
    /// Memory for those events, and for the parameters the call is bound to.
    claim: Claim,
    /// Number of requests so far: keys are never reused.
    asked: u32,
    /// Number of progress notifications sent to keep the server patient.
    progress_sent: u32,
}

struct OpenRequestExchange {
    key: String,
    request: PendingRequest,
}

/// The next event of a call.
pub(super) enum Next {
    /// An event of the server.
    Event(Event),
    /// The server withdrew a request.
    Withdrawn,
}

impl SuspendedCall {
    /// Starts with a call without server requests.
    pub(super) fn new(reply: Reply, account: Account) -> Self {
        let claim = Claim::nothing(account);
        Self { reply, open: Vec::new(), told: VecDeque::new(), claim, asked: 0, progress_sent: 0 }
    }

    /// The next event, stored ones first.
    pub(super) async fn next(&mut self) -> Next {
        match self.told.pop_front() {
            Some(event) => {
                self.claim.shrink(event.weight());
                Next::Event(event)
            }
            None => self.live().await,
        }
    }

    /// The next event from the server. Cancel safe.
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

    /// Stores an event until it is read: the last progress, the latest log messages. Out of memory, it drops a
    /// notification and turns an outcome into an error.
    pub(super) fn keep(&mut self, event: Event) {
        let is = |event: &Event, method: &Method| matches!(event, Event::Notified(told) if told.method == *method);
        if is(&event, &Method::Progress) {
            self.drop_kept(|kept| is(kept, &Method::Progress));
        }
        let weight = event.weight();
        while self.told.len() > MAX_LOGS || (!self.told.is_empty() && self.told_bytes() + weight > MAX_LOG_BYTES) {
            let mut is_first = true;
            self.drop_kept(|_| std::mem::take(&mut is_first));
        }
        if self.claim.grow(weight).is_ok() {
            self.told.push_back(event);
        } else if matches!(event, Event::Done(_)) {
            self.told.extend(Event::exhausted());
        }
    }

    /// Charges so many more bytes, until the call is dropped. A user within a share waits a moment for memory that
    /// others give back.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub(super) async fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.claim.grow_soon(bytes).await
    }

    /// Waits until the call has to be given up to free memory, which may never happen.
    pub(super) fn reclaimed(&self) -> impl Future<Output = Exhausted> + Send + use<> {
        self.claim.reclaimed()
    }

    fn told_bytes(&self) -> usize {
        self.told.iter().map(Event::weight).sum()
    }

    fn drop_kept(&mut self, mut unwanted: impl FnMut(&Event) -> bool) {
        let claim = &mut self.claim;
        self.told.retain(|kept| {
            let is_dropped = unwanted(kept);
            if is_dropped {
                claim.shrink(kept.weight());
            }
            !is_dropped
        });
    }

    /// Adds a server request.
    pub(super) fn ask(&mut self, request: PendingRequest) {
        self.asked += 1;
        self.open.push(OpenRequestExchange { key: format!("q{}", self.asked), request });
    }

    /// True if no request is waiting for the client.
    pub(super) fn is_unasked(&self) -> bool {
        self.open.is_empty()
    }

    /// The size of the open requests as the client gets them.
    pub(super) fn shown_size(&self) -> usize {
        self.open.iter().map(|open| open.request.shown().json().len()).sum()
    }

    /// The result with all open requests, and the state for the client to return (2026-07-28, MRTR).
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

    /// The name in the result: the server's, if all requests come from one, else the gateway's.
    fn server(&self) -> String {
        let mut servers = self.open.iter().map(|open| open.request.server());
        let first = servers.next().flatten().filter(|first| servers.all(|server| server == Some(*first)));
        let gateway = || String::from_utf8_lossy(&ClientInfo::gateway_implementation()).into_owned();
        first.map_or_else(gateway, str::to_owned)
    }

    /// Delivers the client's answers, written in `revision`. Unknown keys are ignored; requests without an answer stay
    /// open.
    pub(super) fn answer(&mut self, responses: &Object<'_>, revision: Revision) {
        for OpenRequestExchange { key, request } in std::mem::take(&mut self.open) {
            match responses.get(&key) {
                None => self.open.push(OpenRequestExchange { key, request }),
                Some(answer) => {
                    let answer = Payload::new(revision, Bytes::copy_from_slice(answer.as_bytes()));
                    if let Some(again) = request.answered(Ok(answer)) {
                        self.ask(*again);
                    }
                }
            }
        }
    }

    /// Sends the server progress, since its client is busy.
    pub(super) fn send_progress(&mut self) {
        self.progress_sent += 1;
        self.open.iter().for_each(|open| open.request.reassure(self.progress_sent));
    }

    /// Refuses all open requests.
    pub(super) fn refuse(&mut self, reason: &str) {
        for OpenRequestExchange { request, .. } in self.open.drain(..) {
            request.refuse(ErrorObject::internal(reason));
        }
    }

    /// Handles a client that is gone: dialogs are cancelled, other requests fail (`translation` 4b.6). The call gets a
    /// moment to finish, then it is cancelled.
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

/// Waits until a request is withdrawn, and returns its index.
async fn withdrawn(open: &mut [OpenRequestExchange]) -> usize {
    if open.is_empty() {
        return future::pending().await;
    }
    let waits = open.iter_mut().map(|open| Box::pin(open.request.withdrawn()));
    let ((), place, _) = future::select_all(waits).await;
    place
}
