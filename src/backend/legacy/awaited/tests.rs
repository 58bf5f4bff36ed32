//! Waiting for a task of a server that is silent, over a connection that breaks off.

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    backend::{
        key::Key,
        legacy::{Offer, session::About},
        task_group::TaskGroup,
        transport::{Transport, TransportError},
    },
    mcp::{Capabilities, ClientInfo, Message, mirrored::Mirror},
    model::BackendId,
};

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_hours(1);

/// A server with one task.
struct Server {
    way: Way,
    asked: Mutex<Vec<Method>>,
}

/// What it does when its task is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The first wait is cut off after this long.
    CutAfter(Duration),
    /// It works for longer than it may be silent.
    Slow,
    /// It says nothing any more.
    Gone,
    /// It says that the task is done, and never gives its result.
    Forgetful,
}

impl Transport for Server {
    fn request(&self, request: Message, _: Option<Arc<Mirror>>) -> BoxStream<'static, Result<Message, TransportError>> {
        let Message::Request { id, method, .. } = request else { return stream::empty().boxed() };
        let mut asked = self.asked.lock();
        let again = asked.contains(&Method::TasksResult);
        asked.push(method.clone());
        let result = |value: &Value| Ok(Message::result(id, value.to_string().into()));
        let answer = match method {
            Method::Initialize => result(&json!({ "protocolVersion": "2025-11-25", "capabilities": {} })),
            Method::ToolsCall => result(&json!({ "task": { "taskId": "t", "status": "working" } })),
            Method::TasksGet if self.way == Way::Forgetful => result(&json!({ "status": "completed" })),
            Method::TasksGet => result(&json!({ "status": "working" })),
            _ => result(&json!({ "content": [] })),
        };
        let answer = stream::iter([answer]);
        match (self.way, method) {
            (Way::CutAfter(time), Method::TasksResult) if !again => {
                stream::once(sleep(time).map(|()| Err(TransportError::Lost("cut".to_owned())))).boxed()
            }
            (Way::Slow, Method::TasksResult) => {
                stream::once(sleep(PATIENCE * 5 / 2)).flat_map(move |()| answer.clone()).boxed()
            }
            (Way::Gone, Method::TasksResult | Method::TasksGet) | (Way::Forgetful, Method::TasksResult) => {
                stream::pending().boxed()
            }
            _ => answer.boxed(),
        }
    }

    fn send(&self, _: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        async { Ok(()) }.boxed()
    }

    fn negotiated(&self, _: Revision) {}

    fn opened(&self) {}

    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }

    fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a call of a client without tasks ends at such a server, and what the server was asked after the handshake.
async fn called(way: Way) -> (Outcome, Vec<Method>) {
    let link = Arc::new(Server { way, asked: Mutex::default() });
    let about = About {
        backend: BackendId::parse("b1").unwrap(),
        key: Key::base(),
        capabilities: Capabilities::none(),
        listens: Arc::default(),
        wants: Arc::default(),
        tasks: TaskGroup::new(CancellationToken::new()),
    };
    let offer = Offer { revision: Revision::V2025_11_25, assumed: None, client: Arc::new(ClientInfo::gateway()) };
    let link_of = Arc::clone(&link);
    let session = Session::open(about, &offer, link_of, stream::pending().boxed()).await.unwrap();
    let params = Payload::new(Revision::V2025_06_18, Bytes::from_static(br#"{"name":"x","task":{}}"#));
    let profile = Profile::default();
    let asked = Asked { profile, ..Asked::of_gateway(Method::ToolsCall, params) };
    let client = ClientInfo { revision: Revision::V2025_06_18, ..ClientInfo::gateway() };
    let calling = session.call_for(&client, asked, PATIENCE);
    let Some(Ok(Event::Done(outcome))) = calling.boxed().next().await else { panic!("an outcome") };
    sleep(Duration::from_secs(1)).await;
    let asked = link.asked.lock().split_off(1);
    (outcome, asked)
}

#[tokio::test(start_paused = true)]
async fn a_result_is_waited_for_again_where_only_the_connection_was_cut() {
    let (outcome, asked) = called(Way::CutAfter(Duration::from_mins(1))).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    assert_eq!(asked, [Method::ToolsCall, Method::TasksResult, Method::TasksResult]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_at_once_is_not_tried_for_ever() {
    let (outcome, asked) = called(Way::CutAfter(Duration::from_secs(1))).await;
    let Outcome::Failed(error) = outcome else { panic!("a failure") };
    assert!(error.is_retryable(), "{error}");
    assert_eq!(asked, [Method::ToolsCall, Method::TasksResult, Method::TasksCancel]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_whether_it_is_still_at_it() {
    use Method::{TasksCancel, TasksGet, TasksResult, ToolsCall};
    let (outcome, asked) = called(Way::Slow).await;
    assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    assert_eq!(asked, [ToolsCall, TasksResult, TasksGet, TasksGet]);
    for (way, reason) in [
        (Way::Gone, "Backend `b1` gave no sign of life for 3600 s, so the call was cancelled"),
        (Way::Forgetful, "Backend `b1` ended a task and did not give its result"),
    ] {
        let (outcome, asked) = called(way).await;
        let Outcome::Failed(error) = outcome else { panic!("a failure") };
        assert_eq!(error.message(), reason);
        assert_eq!(asked, [ToolsCall, TasksResult, TasksGet, TasksCancel]);
    }
}
