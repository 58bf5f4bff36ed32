//! Server requests that wait for the client of one session: their ids, answers and timeouts.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::{
    mcp::{
        ErrorObject, MAX_PROGRESS_SIZE, Method, Payload, RequestId,
        large_messages::{answer_size, off_worker},
        meta,
        pending_request::PendingRequest,
    },
    model::LimitsConfig,
    support::Live,
};

/// Maximum number of a client's progress notifications for one request that wait to be forwarded. Any more are dropped.
const MAX_PROGRESS: usize = 16;

/// Server requests that wait for one client.
#[derive(Debug)]
pub(crate) struct OpenRequests {
    inner: Mutex<Inner>,
    /// Distinguishes the ids of this process from those of earlier processes.
    prefix: String,
    max: usize,
    /// The limits; one of them is the maximum wait for an answer.
    limits: Live<LimitsConfig>,
}

/// A request on its way to the client, and the wait for its answer.
pub(crate) struct OutgoingRequest {
    /// The id that the client gets.
    pub(crate) id: RequestId,
    pub(crate) method: Method,
    /// The parameters. If they have a progress token, it is the gateway's own.
    pub(crate) params: Payload,
    /// Waits for the answer and forwards it. Once this is dropped, an answer is only counted.
    pub(crate) wait: BoxFuture<'static, RequestEnd>,
}

/// The end of the wait for an answer.
#[derive(Debug)]
pub(crate) enum RequestEnd {
    Answered(RequestId),
    /// The client's answer is invalid, so the client must be asked again.
    AskAgain(RequestId, Box<PendingRequest>),
    /// The server cancelled the request.
    Withdrawn(RequestId),
    /// The request timed out, and the server got an error.
    Expired(RequestId),
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<RequestId, OpenRequest>,
    last: u64,
}

/// The receiver of one request's answer.
#[derive(Debug)]
struct OpenRequest {
    answer: oneshot::Sender<Result<Payload, ErrorObject>>,
    progress: mpsc::Sender<Payload>,
    /// The server's own progress token; `None` if it gave none.
    token: Option<Bytes>,
}

/// Removes a request when its wait ends for any reason.
struct OpenRequestGuard {
    requests: Arc<OpenRequests>,
    id: RequestId,
}

// === impl RequestEnd ===

impl RequestEnd {
    /// The id that the client got.
    pub(crate) const fn id(&self) -> &RequestId {
        let (Self::Answered(id) | Self::AskAgain(id, _) | Self::Withdrawn(id) | Self::Expired(id)) = self;
        id
    }
}

// === impl OpenRequests ===

impl OpenRequests {
    /// Creates an empty table for at most `max` requests. Each may wait for `server_request_timeout`, and their ids are
    /// `lk-{prefix}-{number}`.
    pub(crate) fn new(prefix: &str, max: usize, limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), prefix: format!("lk-{prefix}-"), max, limits })
    }

    /// Sends a request. If there are too many, it is refused with an error for its server.
    pub(crate) fn send(self: &Arc<Self>, pending: PendingRequest) -> Option<OutgoingRequest> {
        let mut inner = self.inner.lock();
        if inner.open.len() >= self.max {
            drop(inner);
            metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
            pending.fail(ErrorObject::internal("the client has too many questions open"));
            return None;
        }
        inner.last += 1;
        let name = format!("{}{}", self.prefix, inner.last);
        let id = RequestId::string(&name);
        let token = meta::progress_token(pending.shown());
        let params = match &token {
            // two servers may use the same token (design rule 1)
            Some(_) => meta::with_progress_token(pending.shown(), &String::from_utf8_lossy(id.json())),
            None => pending.shown().clone(),
        };
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = mpsc::channel(MAX_PROGRESS);
        inner.open.insert(id.clone(), OpenRequest { answer, progress, token });
        drop(inner);
        let guard = OpenRequestGuard { requests: Arc::clone(self), id: id.clone() };
        let method = pending.method().clone();
        let wait = Box::pin(wait(guard, pending, answered, progressed));
        Some(OutgoingRequest { id, method, params, wait })
    }

    /// Forwards the client's answer to the request `id`. If there is no such request, the answer is ignored.
    pub(crate) fn answer(&self, id: &RequestId, answer: Result<Payload, ErrorObject>) {
        let waiting = self.inner.lock().open.remove(id);
        match waiting {
            Some(waiting) => drop(waiting.answer.send(answer)),
            None => metrics::counter!("lockkeeper_frontend_stray_answers_total").increment(1),
        }
    }

    /// Forwards the client's progress on a request. Progress for an unknown token is ignored.
    pub(crate) fn progress(&self, params: &Payload) {
        let token = params.member("progressToken").map(str::to_owned);
        let id = token.and_then(|token| RequestId::read(&token.into()));
        let inner = self.inner.lock();
        let found = id.and_then(|id| inner.open.get(&id)).and_then(|open| Some((open, open.token.as_ref()?)));
        let forwarded = found.is_some_and(|(open, token)| {
            params.json().len() <= MAX_PROGRESS_SIZE
                && open.progress.try_send(params.with("progressToken", &String::from_utf8_lossy(token))).is_ok()
        });
        if !forwarded {
            metrics::counter!("lockkeeper_frontend_stray_progress_total").increment(1);
        }
    }
}

async fn wait(
    guard: OpenRequestGuard,
    mut pending: PendingRequest,
    mut answered: oneshot::Receiver<Result<Payload, ErrorObject>>,
    mut progressed: mpsc::Receiver<Payload>,
) -> RequestEnd {
    let timeout = guard.requests.limits.get().server_request_timeout;
    let deadline = sleep(timeout);
    tokio::pin!(deadline);
    let id = guard.id.clone();
    loop {
        tokio::select! {
            biased;
            Some(params) = progressed.recv() => pending.progress(params),
            Ok(given) = &mut answered => {
                off_worker(answer_size(&given)).await;
                return match pending.answered(given) {
                    None => RequestEnd::Answered(id),
                    Some(again) => RequestEnd::AskAgain(id, again),
                };
            }
            () = pending.withdrawn() => return RequestEnd::Withdrawn(id),
            () = &mut deadline => {
                let text = format!("the client did not answer within {} s", timeout.as_secs_f64());
                metrics::counter!("lockkeeper_frontend_questions_expired_total").increment(1);
                pending.fail(ErrorObject::internal(&text));
                return RequestEnd::Expired(id);
            }
        }
    }
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.requests.inner.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::mcp::{
        AnswerEvent, AnswerReceiver, Capabilities, ClientInfo, Revision, ServerRequest,
        client_translator::ClientTranslator, translate::Profile,
    };

    const REVISION: Revision = Revision::V2025_11_25;

    fn pending(params: &serde_json::Value) -> (PendingRequest, AnswerReceiver) {
        let capabilities = Capabilities::none();
        let client = Arc::new(ClientInfo { revision: REVISION, capabilities, ..ClientInfo::gateway() });
        let absent = Payload::absent(REVISION);
        let translator = ClientTranslator::new(&client, Profile::default(), &Method::ToolsCall, &absent);
        let (question, answered) = ServerRequest::new(Method::CreateMessage, Payload::of(REVISION, params));
        (PendingRequest::new(question, &translator).unwrap(), answered)
    }

    fn minute() -> Live<LimitsConfig> {
        Live::new(LimitsConfig { server_request_timeout: Duration::from_mins(1), ..LimitsConfig::default() })
    }

    fn open_requests(max: usize) -> Arc<OpenRequests> {
        OpenRequests::new("m", max, minute())
    }

    #[tokio::test]
    async fn an_answer_reaches_the_server_once() {
        let requests = open_requests(8);
        let (one, answered) = pending(&json!({}));
        let sent = requests.send(one).unwrap();
        assert_eq!(sent.id, RequestId::string("lk-m-1"));
        requests.answer(&sent.id, Ok(Payload::empty(REVISION)));
        requests.answer(&sent.id, Err(ErrorObject::internal("late")));
        assert!(matches!(sent.wait.await, RequestEnd::Answered(_)));
        assert!(answered.wait().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_withdrawn_request_is_reported_as_withdrawn() {
        let requests = open_requests(1);
        let (one, answered) = pending(&json!({}));
        let sent = requests.send(one).unwrap();
        let (two, refused) = pending(&json!({}));
        assert!(requests.send(two).is_none());
        assert!(refused.wait().await.unwrap().is_err());
        drop(answered);
        assert!(matches!(sent.wait.await, RequestEnd::Withdrawn(_)));
        assert!(requests.inner.lock().open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_ends_after_its_timeout() {
        let requests = open_requests(1);
        let (one, answered) = pending(&json!({}));
        let sent = requests.send(one).unwrap();
        assert!(matches!(sent.wait.await, RequestEnd::Expired(_)));
        let error = answered.wait().await.unwrap().unwrap_err();
        assert_eq!(error.message(), "the client did not answer within 60 s");
    }

    #[tokio::test]
    async fn progress_on_a_server_request_reaches_the_server_under_its_own_token() {
        let requests = open_requests(8);
        let token = json!({ "_meta": { "progressToken": 7 } });
        let ((one, mut first), (two, mut second)) = (pending(&token), pending(&token));
        let (one, two) = (requests.send(one).unwrap(), requests.send(two).unwrap());
        for (sent, progress) in [(&one, 1), (&two, 2)] {
            let shown: serde_json::Value = sent.params.view().unwrap();
            let token = &shown["_meta"]["progressToken"];
            requests.progress(&Payload::of(REVISION, &json!({ "progressToken": token, "progress": progress })));
        }
        requests.progress(&Payload::of(REVISION, &json!({ "progressToken": 7, "progress": 3 })));
        for (wait, heard, progress) in [(one.wait, &mut first, 1), (two.wait, &mut second, 2)] {
            let expected = Payload::of(REVISION, &json!({ "progressToken": 7, "progress": progress }));
            tokio::select! {
                _ = wait => panic!("nobody answered"),
                heard = heard.next() => assert_eq!(heard, Some(AnswerEvent::Progress(expected))),
            }
        }
    }
}
