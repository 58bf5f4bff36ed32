//! rmcp as a client of 2026-07-28, at each lock: `client`; or, as `client everything`, at servers with sessions that ask in
//! mid-call. Tells of each check in a line.

#![expect(deprecated, reason = "what 2026-07-28 deprecates is what is tried")]

mod outcome;

use std::{
    env,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData,
    model::*,
    service::{NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService, Subscription},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use self::outcome::{Outcome, contains, equal, typed, within, words};

/// The client's answers to server requests, and the messages that it got.
#[derive(Clone, Default)]
struct Person {
    declines: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
    moved: Arc<Notify>,
}

#[derive(Default)]
struct Heard {
    steps: Vec<f64>,
    logs: Vec<Value>,
}

/// A client at one server, whose things are called `tool` + name and `mark` + URI.
struct Visit {
    client: RunningService<RoleClient, Person>,
    person: Person,
    server: String,
    tool: String,
    mark: String,
    failed: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // the SDK asks for a provider even where nothing is encrypted
    let _ = rustls::crypto::ring::default_provider().install_default();
    let context: Value = serde_json::from_str(&env::var("INTEROP").expect("INTEROP")).expect("the context");
    let key = words(&context["directKey"]);
    let mut failed = false;
    let everything = env::args().nth(1).as_deref() == Some("everything");
    let servers = if everything { with_sessions(&words(&context["url"])) } else { context["servers"].clone() };
    for server in servers.as_array().expect("servers") {
        failed |= visit(server, &key, everything).await;
    }
    ExitCode::from(u8::from(failed))
}

/// The servers that have sessions, as the suite's own gateway shows them.
fn with_sessions(url: &str) -> Value {
    let at = |name: &str, path: &str, tool: &str| json!({ "name": name, "url": format!("{url}{path}"), "tool": tool });
    json!([
        at("stdio", "/mcp/everything", ""),
        at("http", "/mcp/everything-http", ""),
        at("merged", "/mcp", "everything__")
    ])
}

/// Everything at one server; whether something failed.
async fn visit(server: &Value, key: &str, everything: bool) -> bool {
    let person = Person::default();
    let config = StreamableHttpClientTransportConfig::with_uri(words(&server["url"])).auth_header(key);
    let lifecycle =
        ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None };
    let connecting = person.clone().serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), lifecycle);
    let [name, tool, mark] = ["name", "tool", "mark"].map(|member| words(&server[member]));
    let client = match connecting.await {
        Ok(client) => client,
        Err(error) => {
            println!("not ok - Rust 3.9.0 at {name}: it connects\n# {error}");
            return true;
        }
    };
    let mut visit = Visit { client, person, server: name, tool, mark, failed: false };
    if everything {
        visit.everything().await;
    } else {
        visit.lock().await;
    }
    let _ = visit.client.cancel().await;
    visit.failed
}

// === impl Visit ===

impl Visit {
    async fn everything(&mut self) {
        let outcome = self.asked_by_everything().await;
        self.told("a server with sessions asks it in mid-call, twice", outcome);
    }

    async fn lock(&mut self) {
        let outcome = self.structured().await;
        self.told("it lists, and a call gives structured content", outcome);
        let outcome = self.asked().await;
        self.told("it is asked for a name, and gives or declines it", outcome);
        let outcome = self.model_and_roots().await;
        self.told("it is asked for its model and its roots", outcome);
        let outcome = self.says("ask-twice", "Ada carries stone").await;
        self.told("it is asked twice in one call", outcome);
        let outcome = self.progress().await;
        self.told("progress comes, and a cancel reaches the server", outcome);
        let outcome = self.logs().await;
        self.told("log messages come as asked for", outcome);
        let outcome = self.listen().await;
        self.told("a listen hears of a resource and of a tool", outcome);
        let outcome = self.others().await;
        self.told("it reads, gets a prompt and completes", outcome);
    }

    fn told(&mut self, sentence: &str, outcome: Outcome) {
        let mark = if outcome.is_ok() { "ok" } else { "not ok" };
        println!("{mark} - Rust 3.9.0 at {}: {sentence}", self.server);
        if let Err(error) = outcome {
            println!("# {}", error.to_string().replace('\n', "\n# "));
            self.failed = true;
        }
    }

    /// The text of a tool's answer.
    async fn call(&self, tool: &str, given: Value) -> Outcome<String> {
        let result = within(self.client.call_tool(self.request(tool, given, json!({})))).await??;
        let texts = result.content.iter().map(|part| words(&json!(part)["text"]));
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }

    async fn says(&self, tool: &str, expected: &str) -> Outcome {
        equal(self.call(tool, json!({})).await?.as_str(), expected)
    }

    async fn asked_by_everything(&self) -> Outcome {
        equal(json!(self.client.peer_info().map(|info| info.protocol_version.clone())), json!("2026-07-28"))?;
        for _ in 0..2 {
            let given = json!({ "prompt": "a lock", "maxTokens": 20 });
            contains(&self.call("trigger-sampling-request", given).await?, "a weir")?;
            contains(&self.call("trigger-elicitation-request", json!({})).await?, "Ada")?;
        }
        Ok(())
    }

    async fn structured(&self) -> Outcome {
        equal(json!(self.client.peer_info().map(|info| info.protocol_version.clone())), json!("2026-07-28"))?;
        equal(self.lists("measure").await?, true)?;
        let result =
            within(self.client.call_tool(self.request("measure", json!({ "boat": "Zeemeeuw" }), json!({})))).await??;
        equal(result.structured_content, Some(json!({ "boat": "Zeemeeuw", "metres": 12 })))
    }

    async fn asked(&self) -> Outcome {
        self.says("ask-name", "Ada may pass").await?;
        self.person.declines.store(true, Ordering::Relaxed);
        let declined = self.says("ask-name", "nobody passes: decline").await;
        self.person.declines.store(false, Ordering::Relaxed);
        declined
    }

    async fn model_and_roots(&self) -> Outcome {
        self.says("ask-model", "the model says: a weir").await?;
        self.says("ask-roots", "file:///interop").await
    }

    async fn progress(&self) -> Outcome {
        self.person.heard().steps.clear();
        self.call("fill", json!({ "steps": 4 })).await?;
        // each is handed on by a task of its own
        self.until(async || Ok(self.person.heard().steps.len() >= 4)).await?;
        equal(self.person.heard().steps.clone(), vec![1.0, 2.0, 3.0, 4.0])?;
        let before = self.call("abandoned", json!({})).await?;
        let call =
            ClientRequest::CallToolRequest(Request::new(self.request("fill", json!({ "steps": 100_000 }), json!({}))));
        let moved = self.person.moved.notified();
        let going = self.client.send_cancellable_request(call, PeerRequestOptions::no_options()).await?;
        within(moved).await?;
        going.cancel(None).await?;
        self.until(async || Ok(self.call("abandoned", json!({})).await? != before)).await
    }

    async fn logs(&self) -> Outcome {
        self.call("speak", json!({})).await?;
        let level = json!({ "io.modelcontextprotocol/logLevel": "info" });
        within(self.client.call_tool(self.request("speak", json!({}), level))).await??;
        self.until(async || Ok(self.person.heard().logs.len() >= 2)).await?;
        equal(self.person.heard().logs.clone(), vec![json!("a word of info"), json!("a word of error")])
    }

    async fn listen(&self) -> Outcome {
        let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": [self.water()] });
        let mut listen = within(self.client.listen(typed(wanted))).await??;
        contains(&self.call("raise", json!({})).await?, "the water is at")?;
        hears(&mut listen, "notifications/resources/updated").await?;
        let boat = self.call("moor", json!({})).await?;
        hears(&mut listen, "notifications/tools/list_changed").await?;
        self.until(async || self.lists(&boat).await).await?;
        self.says(&boat, &format!("{boat} is moored")).await?;
        Ok(listen.cancel().await?)
    }

    async fn others(&self) -> Outcome {
        let read = within(self.client.read_resource(typed(json!({ "uri": self.water() })))).await??;
        words(&json!(read)["contents"][0]["text"]).parse::<u32>()?;
        let got = within(
            self.client
                .get_prompt(typed(json!({ "name": format!("{}greet", self.tool), "arguments": { "name": "Ada" } }))),
        )
        .await??;
        equal(words(&json!(got)["messages"][0]["content"]["text"]).as_str(), "Greet Ada")?;
        let asked = json!({ "ref": { "type": "ref/prompt", "name": format!("{}greet", self.tool) }, "argument": { "name": "name", "value": "Ad" } });
        let found = within(self.client.complete(typed(asked))).await??;
        equal(found.completion.values, vec!["Ada".to_owned(), "Adam".to_owned()])
    }

    async fn lists(&self, tool: &str) -> Outcome<bool> {
        Ok(within(self.client.list_all_tools())
            .await??
            .iter()
            .any(|listed| listed.name == format!("{}{tool}", self.tool)))
    }

    fn request(&self, tool: &str, arguments: Value, meta: Value) -> CallToolRequestParams {
        typed(json!({ "name": format!("{}{tool}", self.tool), "arguments": arguments, "_meta": meta }))
    }

    fn water(&self) -> String {
        format!("{}lock://water", self.mark)
    }

    /// Asks again until the answer is yes.
    async fn until(&self, probe: impl AsyncFn() -> Outcome<bool>) -> Outcome {
        within(async {
            while !probe().await? {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        })
        .await?
    }
}

// === impl Person ===

impl Person {
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().expect("a lock")
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = typed(json!({ "sampling": {}, "elicitation": { "form": {} }, "roots": {} }));
        ClientConfig::new(capabilities, Implementation::new("interop-rust", "3"))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.declines.load(Ordering::Relaxed) {
            return Ok(typed(json!({ "action": "decline" })));
        }
        let carried = json!(asked)["requestedSchema"]["properties"].get("load").is_some();
        let content = if carried { json!({ "load": "stone" }) } else { json!({ "name": "Ada", "check": true }) };
        Ok(typed(json!({ "action": "accept", "content": content })))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({ "type": "text", "text": "a weir" });
        Ok(typed(json!({ "role": "assistant", "model": "interop", "content": content })))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(typed(json!({ "roots": [{ "uri": "file:///interop", "name": "interop" }] })))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard().steps.push(told.progress);
        self.moved.notify_waiters();
    }

    async fn on_logging_message(&self, told: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard().logs.push(told.data);
    }
}

/// Waits for a notification; others change the same lock.
async fn hears(listen: &mut Subscription, method: &str) -> Outcome {
    within(async {
        while let Some(told) = listen.next().await? {
            if json!(told)["method"] == method {
                return Ok(());
            }
        }
        Err("the listen ended".into())
    })
    .await?
}
