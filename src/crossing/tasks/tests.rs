//! Tools that may or must run as tasks, called by clients without tasks.

use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::*;
use crate::{
    crossing::pairs::awaits_tasks,
    mcp::{Capabilities, ClientInfo, Context, Payload, listen},
    model::{BackendId, Caller, UserId},
    support::{Account, SystemClock},
};

const EXTENSION: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const RUNS_TOOLS: ServerTasks = ServerTasks { has_tasks: true, runs_tools: true, ..ServerTasks::NONE };
const WITHOUT_TASKS: [Revision; 3] = [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18];

/// A server with one tool of each mode; it creates no tasks.
struct Tools {
    listed: Mutex<String>,
    calls: Mutex<Vec<String>>,
    lists: Mutex<usize>,
    awake: watch::Sender<bool>,
}

/// Decorators of a backend with this `call_timeout`.
pub(super) fn bridges(call_timeout: Duration) -> Arc<TaskBridges> {
    let spawn = |task| drop(tokio::runtime::Handle::current().spawn(task));
    TaskBridges::new(
        ServerOrigin::new(BackendId::parse("b1").unwrap(), Account::unbounded()),
        call_timeout,
        Arc::new(SystemClock),
        Box::new(spawn),
    )
}

/// A client of this version.
pub(super) fn context(revision: Revision, capabilities: &'static str) -> Context {
    let capabilities = Capabilities::new(Bytes::from_static(capabilities.as_bytes()));
    Context::of_gateway(ClientInfo { revision, capabilities, ..ClientInfo::gateway() }, Account::unbounded())
}

impl Tools {
    fn new() -> Arc<Self> {
        let tool =
            |name: &str, support: &str| format!(r#"{{"name":"{name}","execution":{{"taskSupport":"{support}"}}}}"#);
        let tools = [tool("look", "required"), tool("some", "optional"), tool("never", "forbidden")];
        let listed = format!(r#"{{"tools":[{},{{"name":"plain"}}]}}"#, tools.join(","));
        let (calls, lists) = (Mutex::default(), Mutex::default());
        Arc::new(Self { listed: Mutex::new(listed), calls, lists, awake: watch::Sender::new(true) })
    }

    /// Calls this tool through the decorators of the pair.
    async fn called(self: &Arc<Self>, bridges: &Arc<TaskBridges>, client: &Context, params: &'static str) -> String {
        let params = Payload::new(client.client.revision, Bytes::from_static(params.as_bytes()));
        self.serve(bridges, Call { method: Method::ToolsCall, params, context: client.clone() }).outcome().await;
        self.calls.lock().pop().unwrap()
    }

    fn serve(self: &Arc<Self>, bridges: &Arc<TaskBridges>, call: Call) -> Reply {
        bridges.set_server_tasks(RUNS_TOOLS);
        let server: Arc<dyn Server> = Arc::<Self>::clone(self);
        match bridge(&call, Era::Legacy, bridges.server(Era::Legacy)) {
            Ok(Some(bridge)) => bridges.serve(bridge, server, call),
            Err(NotMet) => panic!("the server has been met"),
            Ok(None) if awaits_tasks(&call.context.client, RUNS_TOOLS) => {
                bridges.awaited(RUNS_TOOLS)(server).call(call)
            }
            Ok(None) => server.call(call),
        }
    }
}

impl Server for Tools {
    fn call(&self, call: Call) -> Reply {
        let result = |text: String| Reply::complete(Payload::new(Revision::V2025_11_25, text.into()));
        match call.method {
            Method::Listen => Reply::new(stream::iter([listen::honouring([])])),
            Method::ToolsList => {
                *self.lists.lock() += 1;
                let (listed, mut awake) = (self.listed.lock().clone(), self.awake.subscribe());
                Reply::later(async move {
                    awake.wait_for(|awake| *awake).await.unwrap();
                    Reply::complete(Payload::new(Revision::V2025_11_25, listed.into()))
                })
            }
            _ => {
                self.calls.lock().push(String::from_utf8_lossy(call.params.json()).into_owned());
                result(r#"{"content":[]}"#.to_owned())
            }
        }
    }
}

#[tokio::test]
async fn a_tool_that_must_run_as_a_task_does_so_for_a_client_without_tasks() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let old = WITHOUT_TASKS.map(|revision| context(revision, "{}"));
    for client in old.into_iter().chain([context(Revision::V2026_07_28, "{}")]) {
        let called = tools.called(&bridges, &client, r#"{"name":"look","arguments":{"a":1.0}}"#).await;
        assert_eq!(called, r#"{"name":"look","arguments":{"a":1.0},"task":{}}"#);
        for name in [r#"{"name":"some"}"#, r#"{"name":"never"}"#, r#"{"name":"plain"}"#, r#"{"name":"unknown"}"#] {
            assert_eq!(tools.called(&bridges, &client, name).await, name);
        }
    }
}

#[tokio::test]
async fn a_tool_that_can_run_as_a_task_does_so_for_a_client_with_the_extension() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let client = context(Revision::V2026_07_28, EXTENSION);
    for (name, sent) in [
        (r#"{"name":"look"}"#, r#"{"name":"look","task":{}}"#),
        (r#"{"name":"some"}"#, r#"{"name":"some","task":{}}"#),
        (r#"{"name":"never"}"#, r#"{"name":"never"}"#),
        (r#"{"name":"plain"}"#, r#"{"name":"plain"}"#),
    ] {
        assert_eq!(tools.called(&bridges, &client, name).await, sent);
    }
}

#[tokio::test]
async fn a_client_with_tasks_decides_by_itself() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let client = context(Revision::V2025_11_25, "{}");
    for call in [r#"{"name":"look"}"#, r#"{"name":"look","task":{"ttl":1}}"#] {
        assert_eq!(tools.called(&bridges, &client, call).await, call);
    }
    assert_eq!(*tools.lists.lock(), 0);
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_waits_for_the_list() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let client = context(Revision::V2025_06_18, "{}");
    tools.awake.send_replace(false);
    let mut called = Box::pin(tools.called(&bridges, &client, r#"{"name":"look"}"#));
    assert!(futures_util::poll!(&mut called).is_pending());
    assert!(tools.calls.lock().is_empty());
    tools.awake.send_replace(true);
    assert_eq!(called.await, r#"{"name":"look","task":{}}"#);
    tools.called(&bridges, &client, r#"{"name":"plain"}"#).await;
    assert_eq!(*tools.lists.lock(), 1);
}

#[tokio::test]
async fn a_changed_task_mode_applies_after_the_next_list() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let client = context(Revision::V2025_06_18, "{}");
    assert_eq!(tools.called(&bridges, &client, r#"{"name":"plain"}"#).await, r#"{"name":"plain"}"#);
    *tools.listed.lock() = r#"{"tools":[{"name":"plain","execution":{"taskSupport":"required"}}]}"#.to_owned();
    let context = Context { client: Arc::new(ClientInfo::gateway()), ..client.clone() };
    let params = Payload::absent(Revision::NEWEST_LEGACY);
    tools.serve(&bridges, Call { method: Method::ToolsList, params, context }).outcome().await;
    assert_eq!(tools.called(&bridges, &client, r#"{"name":"plain"}"#).await, r#"{"name":"plain","task":{}}"#);
}

/// A client of this user without tasks.
fn of_user(user: &str) -> Context {
    let caller = Caller { user: UserId::new(user), ..Caller::gateway() };
    Context { caller: Arc::new(caller), ..context(Revision::V2025_06_18, "{}") }
}

#[tokio::test(start_paused = true)]
async fn names_that_the_server_does_not_have_cost_only_their_caller() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let (hostile, ann) = (of_user("hostile"), of_user("ann"));
    let called = async |client: &Context, name: &str| {
        let params = Payload::new(client.client.revision, format!(r#"{{"name":"{name}"}}"#).into());
        tools.serve(&bridges, Call { method: Method::ToolsCall, params, context: client.clone() }).outcome().await;
        tools.calls.lock().pop().unwrap()
    };
    for number in 0..12_000 {
        called(&hostile, &format!("x{number}")).await;
    }
    assert_eq!(*tools.lists.lock(), 1, "the list is read once");
    assert_eq!(called(&ann, "look").await, r#"{"name":"look","task":{}}"#);
    assert_eq!(*tools.lists.lock(), 1, "it is known what the list named");
    called(&ann, "hidden").await;
    assert_eq!(*tools.lists.lock(), 2, "for her it was not read yet");
    tokio::time::advance(Duration::from_secs(10)).await;
    called(&hostile, "another").await;
    assert_eq!(*tools.lists.lock(), 3);
    called(&ann, "hidden").await;
    assert_eq!(*tools.lists.lock(), 3, "it is known that the list does not have it");
}

#[tokio::test(start_paused = true)]
async fn one_list_is_read_for_a_user_at_a_time() {
    let (tools, bridges) = (Tools::new(), bridges(Duration::from_hours(1)));
    let (hostile, ann) = (of_user("hostile"), of_user("ann"));
    tools.awake.send_replace(false);
    let mut waiting: Vec<_> =
        (0..10).map(|_| Box::pin(tools.called(&bridges, &hostile, r#"{"name":"plain"}"#))).collect();
    for call in &mut waiting {
        assert!(futures_util::poll!(call).is_pending());
    }
    assert_eq!(*tools.lists.lock(), 1);
    let mut anns = Box::pin(tools.called(&bridges, &ann, r#"{"name":"look"}"#));
    assert!(futures_util::poll!(&mut anns).is_pending());
    assert_eq!(*tools.lists.lock(), 2, "hers does not wait for theirs");
    tools.awake.send_replace(true);
    assert_eq!(anns.await, r#"{"name":"look","task":{}}"#);
    for call in waiting {
        call.await;
    }
    assert_eq!(*tools.lists.lock(), 2);
}
