//! The questions that wait for the client of one session. Knows nothing of how they reach it.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::mcp::{Answer, ErrorObject, Payload, RequestId};

/// The questions that wait for one client.
#[derive(Debug)]
pub(crate) struct Questions {
    inner: Mutex<Inner>,
    /// Sets the ids of this process apart from those of one before it.
    prefix: String,
    most: usize,
}

/// How the wait for an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The client answered.
    Answered(RequestId),
    /// The server no longer wants to know.
    Withdrawn(RequestId),
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<RequestId, oneshot::Sender<Result<Payload, ErrorObject>>>,
    last: u64,
}

/// Takes a question off the list however the wait for it ends.
struct Listed {
    questions: Arc<Questions>,
    id: RequestId,
}

// === impl Questions ===

impl Questions {
    /// No questions yet, and at most `most` at once; their ids are `lk-{mark}-{number}`.
    pub(crate) fn new(mark: &str, most: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), prefix: format!("lk-{mark}-"), most })
    }

    /// Lists a question: the id to ask the client under, and the wait for its answer, which gives it on. An answer after
    /// the wait is dropped finds nobody. The answer is given back where too many questions are open.
    pub(crate) fn ask(
        self: &Arc<Self>,
        mut answer: Answer,
    ) -> Result<(RequestId, BoxFuture<'static, Settled>), Answer> {
        let mut inner = self.inner.lock();
        if inner.open.len() >= self.most {
            return Err(answer);
        }
        inner.last += 1;
        let id = RequestId::string(&format!("{}{}", self.prefix, inner.last));
        let (sender, receiver) = oneshot::channel();
        inner.open.insert(id.clone(), sender);
        drop(inner);
        let listed = Listed { questions: Arc::clone(self), id: id.clone() };
        let wait = async move {
            let id = listed.id.clone();
            tokio::select! {
                biased;
                Ok(given) = receiver => {
                    answer.give(given);
                    Settled::Answered(id)
                }
                () = answer.withdrawn() => Settled::Withdrawn(id),
            }
        };
        Ok((id, Box::pin(wait)))
    }

    /// Brings the client's answer to the question `id`; one that nobody waits for is passed over.
    pub(crate) fn answer(&self, id: &RequestId, answer: Result<Payload, ErrorObject>) {
        let waiting = self.inner.lock().open.remove(id);
        match waiting {
            Some(waiting) => drop(waiting.send(answer)),
            None => metrics::counter!("lockkeeper_frontend_stray_answers_total").increment(1),
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.questions.inner.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Method, Question, Revision};

    const NOTHING: Payload = Payload::absent(Revision::V2025_11_25);

    #[tokio::test]
    async fn an_answer_reaches_the_server_once() {
        let questions = Questions::new("m", 8);
        let (question, answered) = Question::new(Method::RootsList, NOTHING);
        let (id, wait) = questions.ask(question.answer).unwrap();
        assert_eq!(id, RequestId::string("lk-m-1"));
        questions.answer(&id, Ok(Payload::empty(Revision::V2025_11_25)));
        questions.answer(&id, Err(ErrorObject::internal("late")));
        assert_eq!(wait.await, Settled::Answered(id));
        assert!(answered.wait().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_withdrawn_question_is_known_as_such() {
        let questions = Questions::new("m", 1);
        let (question, answered) = Question::new(Method::RootsList, NOTHING);
        let (id, wait) = questions.ask(question.answer).unwrap();
        let (second, _answered) = Question::new(Method::RootsList, NOTHING);
        assert!(questions.ask(second.answer).is_err());
        drop(answered);
        assert_eq!(wait.await, Settled::Withdrawn(id));
        assert!(questions.inner.lock().open.is_empty());
    }
}
