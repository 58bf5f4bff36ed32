//! Awaited tasks of a silent server, over a connection that breaks off.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::{
    crossing::tasks::tests::{bridges, context},
    mcp::error::{Retry, Unavailable},
    model::BackendId,
};

/// Maximum silence of the server.
const CALL_TIMEOUT: Duration = Duration::from_hours(1);

/// A server with one task.
struct Scripted {
    way: Way,
    asked: Mutex<Vec<Method>>,
}

/// Behaviour of the server while its task is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It breaks off the first wait after this time.
    CutAfter(Duration),
    /// It works for longer than the maximum silence.
    Slow,
    /// It stays silent.
    Gone,
    /// It reports the end of the task, and never returns the result.
    Forgetful,
}

impl Server for Scripted {
    fn call(&self, Call { method, .. }: Call) -> Reply {
        if method == Method::Listen {
            return Reply::new(stream::iter([listen::honouring([])]).chain(stream::pending()));
        }
        let mut asked = self.asked.lock();
        let again = asked.contains(&Method::TasksResult);
        asked.push(method.clone());
        drop(asked);
        let result = |value: &Value| Outcome::Complete(Payload::of(Revision::V2025_11_25, value));
        let answer = match method {
            Method::ToolsCall => result(&json!({ "task": { "taskId": "t", "status": "working" } })),
            Method::TasksGet if self.way == Way::Forgetful => result(&json!({ "status": "completed" })),
            Method::TasksGet => result(&json!({ "status": "working" })),
            _ => result(&json!({ "content": [] })),
        };
        match (self.way, method) {
            (Way::CutAfter(time), Method::TasksResult) if !again => after(time, Outcome::Failed(cut())),
            (Way::Slow, Method::TasksResult) => after(CALL_TIMEOUT * 5 / 2, answer),
            (Way::Gone, Method::TasksGet) => {
                after(CALL_TIMEOUT, Outcome::Failed(ErrorObject::internal("no sign of life")))
            }
            (Way::Gone | Way::Forgetful, Method::TasksResult) => Reply::new(stream::pending()),
            _ => Reply::done(answer),
        }
    }
}

fn after(time: Duration, outcome: Outcome) -> Reply {
    Reply::later(async move {
        sleep(time).await;
        Reply::done(outcome)
    })
}

/// The error of a broken connection.
fn cut() -> ErrorObject {
    let backend = BackendId::parse("b1").unwrap();
    ErrorObject::unavailable(
        "cut",
        &Unavailable { backend: &backend, reason: "cut", retry: Retry::Possible, supported: &[] },
    )
}

/// The outcome of a call by a client without tasks at such a server, and the methods that the server got.
async fn called(way: Way) -> (Outcome, Vec<Method>) {
    let server = Arc::new(Scripted { way, asked: Mutex::default() });
    let (shared, context) = (Arc::clone(&bridges(CALL_TIMEOUT).shared), context(Revision::V2025_06_18, "{}"));
    let params = Payload::new(Revision::V2025_06_18, Bytes::from_static(br#"{"name":"x","task":{}}"#));
    let inner: Arc<dyn Server> = Arc::<Scripted>::clone(&server);
    let call = Call { method: Method::ToolsCall, params, context };
    let outcome = AwaitedTasks::new(inner, shared, false).call(call).outcome().await;
    sleep(Duration::from_secs(1)).await;
    let asked = server.asked.lock().clone();
    (outcome, asked)
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_result_is_repeated_after_a_broken_connection() {
    let (outcome, asked) = called(Way::CutAfter(Duration::from_mins(1))).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    assert_eq!(asked, [Method::ToolsCall, Method::TasksResult, Method::TasksResult]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_at_once_is_not_retried_forever() {
    let (outcome, asked) = called(Way::CutAfter(Duration::from_secs(1))).await;
    let Outcome::Failed(error) = outcome else { panic!("a failure") };
    assert!(error.may_pass(), "{error}");
    assert_eq!(asked, [Method::ToolsCall, Method::TasksResult, Method::TasksCancel]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_for_the_status_of_the_task() {
    use Method::{TasksCancel, TasksGet, TasksResult, ToolsCall};
    let (outcome, asked) = called(Way::Slow).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    assert_eq!(asked, [ToolsCall, TasksResult, TasksGet, TasksGet]);
    for (way, reason) in
        [(Way::Gone, "no sign of life"), (Way::Forgetful, "Server `b1` ended a task and did not give its result")]
    {
        let (outcome, asked) = called(way).await;
        let Outcome::Failed(error) = outcome else { panic!("a failure") };
        assert_eq!(error.message(), reason);
        assert_eq!(asked, [ToolsCall, TasksResult, TasksGet, TasksCancel]);
    }
}
