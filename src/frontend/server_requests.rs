//! The questions that wait for the client of one session: their ids, their answers, their time. Knows nothing of how they
//! reach it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::mcp::{ErrorObject, Method, Payload, RequestId, meta, pending_request::PendingRequest};

/// How much of a client's progress with one question waits to be passed on; what comes beyond is dropped.
const MOST_PROGRESS: usize = 16;

/// The questions that wait for one client.
#[derive(Debug)]
pub(crate) struct Questions {
    inner: Mutex<Inner>,
    /// Sets the ids of this process apart from those of one before it.
    prefix: String,
    most: usize,
    /// How long each waits.
    patience: Duration,
}

/// A question that was listed: what to send, and the wait for the answer.
pub(crate) struct Listed {
    /// The id to ask the client under.
    pub(crate) id: RequestId,
    /// What it is asked.
    pub(crate) method: Method,
    /// The parameters, with a progress token of the gateway's own where there was one.
    pub(crate) params: Payload,
    /// The wait for the answer, which gives it on. An answer after the wait is dropped finds nobody.
    pub(crate) wait: BoxFuture<'static, Settled>,
}

/// How the wait for an answer ended.
#[derive(Debug)]
pub(crate) enum Settled {
    /// The client answered.
    Answered(RequestId),
    /// The client answered, and is to be asked again.
    Again(RequestId, Box<PendingRequest>),
    /// The server no longer wants to know.
    Withdrawn(RequestId),
    /// The client took too long; the server was told.
    Expired(RequestId),
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<RequestId, Open>,
    last: u64,
}

/// Where what the client says of one question goes.
#[derive(Debug)]
struct Open {
    answer: oneshot::Sender<Result<Payload, ErrorObject>>,
    progress: mpsc::Sender<Payload>,
    /// The server's own progress token.
    token: Option<Bytes>,
}

/// Takes a question off the list however the wait for it ends.
struct Entry {
    questions: Arc<Questions>,
    id: RequestId,
}

// === impl Questions ===

impl Questions {
    /// No questions yet, and at most `most` at once, each for no longer than `patience`; their ids are
    /// `lk-{mark}-{number}`.
    pub(crate) fn new(mark: &str, most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), prefix: format!("lk-{mark}-"), most, patience })
    }

    /// Lists a question. Where too many are open it is refused, and its server told.
    pub(crate) fn ask(self: &Arc<Self>, asking: PendingRequest) -> Option<Listed> {
        let mut inner = self.inner.lock();
        if inner.open.len() >= self.most {
            drop(inner);
            metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
            asking.fail(ErrorObject::internal("the client has too many questions open"));
            return None;
        }
        inner.last += 1;
        let name = format!("{}{}", self.prefix, inner.last);
        let id = RequestId::string(&name);
        let token = meta::progress_token(asking.shown());
        let params = match &token {
            // two servers may use the same token (design rule 1)
            Some(_) => meta::with_progress_token(asking.shown(), &String::from_utf8_lossy(id.json())),
            None => asking.shown().clone(),
        };
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = mpsc::channel(MOST_PROGRESS);
        inner.open.insert(id.clone(), Open { answer, progress, token });
        drop(inner);
        let entry = Entry { questions: Arc::clone(self), id: id.clone() };
        let method = asking.method().clone();
        let wait = Box::pin(wait(entry, asking, answered, progressed));
        Some(Listed { id, method, params, wait })
    }

    /// Brings the client's answer to the question `id`; one that nobody waits for is passed over.
    pub(crate) fn answer(&self, id: &RequestId, answer: Result<Payload, ErrorObject>) {
        let waiting = self.inner.lock().open.remove(id);
        match waiting {
            Some(waiting) => drop(waiting.answer.send(answer)),
            None => metrics::counter!("lockkeeper_frontend_stray_answers_total").increment(1),
        }
    }

    /// Brings the client's progress with a question; one whose token was not given to it is passed over.
    pub(crate) fn progress(&self, params: &Payload) {
        let token = params.object().and_then(|object| object.get("progressToken").map(str::to_owned));
        let id = token.and_then(|token| RequestId::read(&token.into()));
        let inner = self.inner.lock();
        let theirs = id.and_then(|id| inner.open.get(&id)).and_then(|open| Some((open, open.token.as_ref()?)));
        let passed_on = theirs.is_some_and(|(open, token)| {
            open.progress.try_send(params.with("progressToken", &String::from_utf8_lossy(token))).is_ok()
        });
        if !passed_on {
            metrics::counter!("lockkeeper_frontend_stray_progress_total").increment(1);
        }
    }
}

async fn wait(
    entry: Entry,
    mut asking: PendingRequest,
    mut answered: oneshot::Receiver<Result<Payload, ErrorObject>>,
    mut progressed: mpsc::Receiver<Payload>,
) -> Settled {
    let patience = entry.questions.patience;
    let deadline = sleep(patience);
    tokio::pin!(deadline);
    let id = entry.id.clone();
    loop {
        tokio::select! {
            biased;
            Some(params) = progressed.recv() => asking.progress(params),
            Ok(given) = &mut answered => {
                return match asking.answered(given) {
                    None => Settled::Answered(id),
                    Some(again) => Settled::Again(id, again),
                };
            }
            () = asking.withdrawn() => return Settled::Withdrawn(id),
            () = &mut deadline => {
                let text = format!("the client did not answer within {} s", patience.as_secs_f64());
                metrics::counter!("lockkeeper_frontend_questions_expired_total").increment(1);
                asking.fail(ErrorObject::internal(&text));
                return Settled::Expired(id);
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.questions.inner.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::{
        Answered, Capabilities, ClientInfo, Heard, Question, Revision, client_translator::ClientTranslator,
        translate::Profile,
    };

    const REVISION: Revision = Revision::V2025_11_25;

    fn asking(params: &serde_json::Value) -> (PendingRequest, Answered) {
        let capabilities = Capabilities::none();
        let client = Arc::new(ClientInfo { revision: REVISION, capabilities, ..ClientInfo::gateway() });
        let absent = Payload::absent(REVISION);
        let translator = ClientTranslator::new(&client, Profile::default(), &Method::ToolsCall, &absent);
        let (question, answered) = Question::new(Method::CreateMessage, Payload::of(REVISION, params));
        (PendingRequest::new(question, &translator).unwrap(), answered)
    }

    fn questions(most: usize) -> Arc<Questions> {
        Questions::new("m", most, Duration::from_mins(1))
    }

    #[tokio::test]
    async fn an_answer_reaches_the_server_once() {
        let questions = questions(8);
        let (asking, answered) = asking(&json!({}));
        let listed = questions.ask(asking).unwrap();
        assert_eq!(listed.id, RequestId::string("lk-m-1"));
        questions.answer(&listed.id, Ok(Payload::empty(REVISION)));
        questions.answer(&listed.id, Err(ErrorObject::internal("late")));
        assert!(matches!(listed.wait.await, Settled::Answered(_)));
        assert!(answered.wait().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_withdrawn_question_is_known_as_such() {
        let questions = questions(1);
        let (one, answered) = asking(&json!({}));
        let listed = questions.ask(one).unwrap();
        let (two, refused) = asking(&json!({}));
        assert!(questions.ask(two).is_none());
        assert!(refused.wait().await.unwrap().is_err());
        drop(answered);
        assert!(matches!(listed.wait.await, Settled::Withdrawn(_)));
        assert!(questions.inner.lock().open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_answers_ends_in_its_time() {
        let questions = questions(1);
        let (asking, answered) = asking(&json!({}));
        let listed = questions.ask(asking).unwrap();
        assert!(matches!(listed.wait.await, Settled::Expired(_)));
        let error = answered.wait().await.unwrap().unwrap_err();
        assert_eq!(error.message(), "the client did not answer within 60 s");
    }

    #[tokio::test]
    async fn progress_with_a_question_goes_to_its_server_under_the_servers_own_token() {
        let questions = questions(8);
        let token = json!({ "_meta": { "progressToken": 7 } });
        let ((one, mut first), (two, mut second)) = (asking(&token), asking(&token));
        let (one, two) = (questions.ask(one).unwrap(), questions.ask(two).unwrap());
        for (listed, progress) in [(&one, 1), (&two, 2)] {
            let shown: serde_json::Value = listed.params.view().unwrap();
            let token = &shown["_meta"]["progressToken"];
            questions.progress(&Payload::of(REVISION, &json!({ "progressToken": token, "progress": progress })));
        }
        questions.progress(&Payload::of(REVISION, &json!({ "progressToken": 7, "progress": 3 })));
        for (wait, heard, progress) in [(one.wait, &mut first, 1), (two.wait, &mut second, 2)] {
            let expected = Payload::of(REVISION, &json!({ "progressToken": 7, "progress": progress }));
            tokio::select! {
                _ = wait => panic!("nobody answered"),
                heard = heard.next() => assert_eq!(heard, Some(Heard::Progress(expected))),
            }
        }
    }
}
