//! What one task wants to know, until its client takes and answers it, and what the task came to. Knows nothing of
//! requests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    backend::extension::detail::related,
    mcp::{
        ClientInfo, ErrorObject, Facts, Outcome, Payload, Question, Revision,
        json::{Object, quote},
        translate::Kind,
    },
};

/// How long further questions are waited for, so that they are shown together (`translation` 4b).
const TOGETHER: Duration = Duration::from_millis(25);
/// How many questions wait at once; what comes beyond is refused.
const MOST: usize = 64;

/// The desk of one task.
#[derive(Debug)]
pub(crate) struct Desk {
    papers: Mutex<Papers>,
    /// Counts what comes.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Papers {
    open: BTreeMap<u64, Question>,
    /// How many questions there were: a key is never used again (extension, *Task Update Requests*).
    last: u64,
    attended: bool,
    outcome: Option<Outcome>,
}

/// Somebody who waits for the result. Dropping it lets another wait, and takes the questions away.
#[derive(Debug)]
pub(super) struct Attending(Arc<Desk>);

impl Default for Desk {
    fn default() -> Self {
        Self { papers: Mutex::default(), news: watch::Sender::new(0) }
    }
}

// === impl Desk ===

impl Desk {
    /// Takes the place of who waits; `None` where somebody does, or the task is over.
    pub(super) fn attend(desk: &Arc<Self>) -> Option<Attending> {
        let mut papers = desk.papers.lock();
        if papers.outcome.is_some() || std::mem::replace(&mut papers.attended, true) {
            return None;
        }
        Some(Attending(Arc::clone(desk)))
    }

    /// What it wants to know, as `inputRequests` of 2026-07-28, when there is something or after `patience`; `None` where
    /// there is nothing.
    pub(super) async fn questions(&self, patience: Duration, client: &ClientInfo) -> Option<String> {
        let mut news = self.news.subscribe();
        let some = news.wait_for(|_| self.has_questions());
        if matches!(timeout(patience, some).await, Ok(Ok(_))) {
            sleep(TOGETHER).await;
        }
        let papers = self.papers.lock();
        let mut shown = Vec::new();
        for (number, question) in &papers.open {
            let facts = Facts { client: Some(client), ..Facts::new(Kind::Question, &question.method) };
            let params = question.params.clone().into_revision(Revision::V2026_07_28, &facts).ok()?;
            let params = if params.is_absent() { "{}".into() } else { String::from_utf8_lossy(params.json()) };
            let method = quote(question.method.as_str());
            shown.push(format!(r#""r{number}":{{"method":{method},"params":{params}}}"#));
        }
        (!shown.is_empty()).then(|| format!("{{{}}}", shown.join(",")))
    }

    /// Brings the client's answers to who asked, as those of the task `id`. Keys that nothing waits under are passed over
    /// (extension, *Task Update Requests*).
    pub(super) fn answer(&self, id: &str, responses: &Object<'_>) {
        for (key, text) in responses.iter() {
            let number = key.strip_prefix('r').and_then(|number| number.parse().ok());
            let question = number.and_then(|number: u64| self.papers.lock().open.remove(&number));
            let Some(Question { method, params, answer }) = question else { continue };
            let given = Payload::new(Revision::V2026_07_28, Bytes::copy_from_slice(text.as_bytes()));
            if given.object().is_none() {
                answer.give(Err(ErrorObject::internal("the answer is no object")));
                continue;
            }
            let facts = Facts { question: Some(&params), ..Facts::new(Kind::Answer, &method) };
            answer.give(match given.into_revision(params.revision, &facts) {
                Ok(given) => Ok(related(&given, id)),
                Err(refusal) => {
                    refusal.report();
                    Err(refusal.error())
                }
            });
        }
    }

    /// What the task came to, where somebody waits for it, for no longer than `patience`.
    pub(super) async fn outcome(&self, patience: Duration) -> Option<Outcome> {
        let mut news = self.news.subscribe();
        let over = news.wait_for(|_| {
            let papers = self.papers.lock();
            papers.outcome.is_some() || !papers.attended
        });
        let _ = timeout(patience, over).await;
        self.papers.lock().outcome.clone()
    }

    /// Whether there are any that have not been taken back.
    fn has_questions(&self) -> bool {
        let mut papers = self.papers.lock();
        papers.open.retain(|_, question| question.answer.withdrawn().now_or_never().is_none());
        !papers.open.is_empty()
    }
}

// === impl Attending ===

impl Attending {
    /// A question of the task.
    pub(super) fn ask(&self, question: Question) {
        let mut papers = self.0.papers.lock();
        if papers.open.len() >= MOST {
            return;
        }
        papers.last += 1;
        let number = papers.last;
        papers.open.insert(number, question);
        drop(papers);
        self.0.news.send_modify(|news| *news += 1);
    }

    /// The end of the wait. What the gateway itself failed at is not what the task came to.
    pub(super) fn ended(&self, outcome: Outcome) {
        let is_own = matches!(&outcome, Outcome::Failed(error) if error.revision().is_none());
        if !is_own {
            self.0.papers.lock().outcome = Some(outcome);
        }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        {
            let mut papers = self.0.papers.lock();
            papers.attended = false;
            papers.open.clear();
        }
        self.0.news.send_modify(|news| *news += 1);
    }
}
