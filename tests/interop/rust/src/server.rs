//! The lock on rmcp: `server ERA [PORT]`; on pipes, or over Streamable HTTP. As `modern` it serves clients of 2026-07-28
//! alone, as `dual` what the SDK serves by itself.

#![expect(deprecated, reason = "what 2026-07-28 deprecates is what is tried")]

use std::{
    borrow::Cow,
    collections::HashMap,
    env,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    model::*,
    service::{RequestContext, RoleServer, SubscriptionContext},
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    sync::broadcast::{self, Receiver, Sender, error::RecvError},
    task,
};

const WATER: &str = "lock://water";
const LEVELS: [(LoggingLevel, &str); 3] =
    [(LoggingLevel::Debug, "debug"), (LoggingLevel::Info, "info"), (LoggingLevel::Error, "error")];

#[derive(Clone)]
struct Lock {
    modern: bool,
    seen: Arc<Mutex<Seen>>,
    changes: Sender<Change>,
    /// What a listen hears, from before it is acknowledged on: the SDK calls `listen` after that. By the task of the request.
    ears: Arc<Mutex<HashMap<task::Id, Receiver<Change>>>>,
}

#[derive(Default)]
struct Seen {
    level: u32,
    abandoned: u32,
    boats: u32,
}

#[derive(Clone, Copy)]
enum Change {
    Water,
    Tools,
}

/// What a tool answers with.
type Answer = Result<CallToolResponse, ErrorData>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let modern = arguments.next().as_deref() == Some("modern");
    let lock = Lock { modern, seen: Arc::default(), changes: broadcast::channel(1024).0, ears: Arc::default() };
    let Some(port) = arguments.next() else {
        lock.serve(stdio()).await?.waiting().await?;
        return Ok(());
    };
    let service: StreamableHttpService<Lock, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(lock.clone()), Arc::default(), StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

// === impl Lock ===

impl Lock {
    fn tools(&self) -> Vec<Tool> {
        let text = json!({ "type": "string" });
        let object = |properties: Value| json!({ "type": "object", "properties": properties });
        let measured = object(json!({ "boat": text, "metres": { "type": "integer" } }));
        let boat = object(json!({ "boat": { "type": "string", "x-mcp-header": "Boat" } }));
        let mut tools = vec![
            json!({ "name": "measure", "inputSchema": boat, "outputSchema": measured }),
            json!({ "name": "fill", "inputSchema": object(json!({ "steps": { "type": "integer" } })) }),
        ];
        let boats = (1..=self.seen.lock().expect("a lock").boats).map(|boat| format!("boat-{boat}"));
        let plain = ["ask-name", "ask-model", "ask-roots", "ask-twice", "abandoned", "speak", "raise", "moor"];
        let plain = plain.into_iter().map(str::to_owned).chain(boats);
        tools.extend(plain.map(|name| json!({ "name": name, "inputSchema": object(json!({})) })));
        tools.into_iter().map(typed).collect()
    }

    async fn fill(&self, steps: u64, context: &RequestContext<RoleServer>) -> Answer {
        for step in 1..=steps {
            if let Some(token) = context.meta.get_progress_token() {
                let told = json!({ "progressToken": token, "progress": step, "total": steps });
                let _ = context.peer.notify_progress(typed(told)).await;
            }
            tokio::select! {
                () = context.ct.cancelled() => {
                    self.seen.lock().expect("a lock").abandoned += 1;
                    break;
                }
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        said(format!("filled in {steps} steps"))
    }

    async fn speak(context: &RequestContext<RoleServer>) -> Answer {
        let asked = context.meta.log_level();
        let least = LEVELS.iter().position(|(level, _)| Some(level) == asked.as_ref()).unwrap_or(LEVELS.len());
        for (_, level) in &LEVELS[least..] {
            let told = json!({ "level": level, "logger": "lock", "data": format!("a word of {level}") });
            let _ = context
                .peer
                .send_notification(typed(json!({ "method": "notifications/message", "params": told })))
                .await;
        }
        said("spoken".to_owned())
    }

    fn changed(&self, change: Change) -> Answer {
        let words = {
            let mut seen = self.seen.lock().expect("a lock");
            match change {
                Change::Water => {
                    seen.level += 1;
                    format!("the water is at {}", seen.level)
                }
                Change::Tools => {
                    seen.boats += 1;
                    format!("boat-{}", seen.boats)
                }
            }
        };
        let _ = self.changes.send(change); // nobody may listen
        said(words)
    }
}

impl ServerHandler for Lock {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true }, "prompts": {}, "completions": {}, "logging": {},
        });
        ServerConfig::new(typed(capabilities)).with_server_info(Implementation::new("lock", "2.0.0"))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];
        Cow::Borrowed(if self.modern { MODERN } else { ProtocolVersion::KNOWN_VERSIONS })
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(whole(json!({ "tools": self.tools() })))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Answer {
        let given = |name: &str| request.arguments.as_ref().and_then(|arguments| arguments.get(name)).cloned();
        let answered = |name: &str| request.input_responses.as_ref().and_then(|responses| responses.get(name));
        match request.name.as_ref() {
            "measure" => {
                let value = json!({ "boat": given("boat"), "metres": 12 });
                Ok(CallToolResult::structured(value).into())
            }
            "ask-name" => answered("name").map_or_else(|| ask_name(None), |answer| said(passed(answer))),
            "ask-model" => answered("model").map_or_else(ask_model, |answer| {
                said(format!("the model says: {}", words(&answer["content"]["text"])))
            }),
            "ask-roots" => answered("roots").map_or_else(ask_roots, |answer| said(words(&answer["roots"][0]["uri"]))),
            "ask-twice" => match (&request.request_state, answered("name"), answered("load")) {
                (Some(name), _, Some(load)) => said(format!("{name} carries {}", words(&load["content"]["load"]))),
                (_, Some(name), _) => ask_name(Some(words(&name["content"]["name"]))),
                _ => ask_name(None),
            },
            "fill" => self.fill(given("steps").and_then(|steps| steps.as_u64()).unwrap_or(0), &context).await,
            "abandoned" => said(self.seen.lock().expect("a lock").abandoned.to_string()),
            "speak" => Self::speak(&context).await,
            "raise" => self.changed(Change::Water),
            "moor" => self.changed(Change::Tools),
            boat if self.get_tool(boat).is_some() => said(format!("{boat} is moored")),
            other => Err(ErrorData::invalid_params(format!("Unknown tool: {other}"), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(whole(json!({ "resources": [{ "uri": WATER, "name": "water", "mimeType": "text/plain" }] })))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let level = self.seen.lock().expect("a lock").level.to_string();
        let result: ReadResourceResult = whole(json!({ "contents": [{ "uri": request.uri, "text": level }] }));
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(whole(json!({ "prompts": [{ "name": "greet", "arguments": [{ "name": "name", "required": true }] }] })))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.arguments.and_then(|given| given.get("name").cloned()).unwrap_or_default();
        let text = format!("Greet {}", words(&json!(name)));
        let result: GetPromptResult =
            whole(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }));
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let names = ["Ada", "Adam", "Grace"];
        let values: Vec<_> = names.into_iter().filter(|name| name.starts_with(&request.argument.value)).collect();
        Ok(whole(json!({ "completion": { "values": values, "hasMore": false } })))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.ears.lock().expect("a lock").insert(task::id(), self.changes.subscribe());
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let heard = self.ears.lock().expect("a lock").remove(&task::id());
        let mut changes = heard.unwrap_or_else(|| self.changes.subscribe());
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // what was not asked for is refused by the sink
            let _ = match change {
                Ok(Change::Water) => context.sink().notify_resource_updated(WATER).await,
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            };
        }
    }
}

/// A value of the SDK, written as it is on the wire.
fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value of the SDK")
}

/// A result that asks for nothing more.
fn whole<T: DeserializeOwned>(mut value: Value) -> T {
    value["resultType"] = json!("complete");
    typed(value)
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn said(text: String) -> Answer {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

fn passed(answer: &Value) -> String {
    match answer["action"].as_str() {
        Some("accept") => format!("{} may pass", words(&answer["content"]["name"])),
        other => format!("nobody passes: {}", other.unwrap_or_default()),
    }
}

/// Asks who it is, or, where that is known, what is carried: the name is the state.
fn ask_name(known: Option<String>) -> Answer {
    let (field, message) = match &known {
        None => ("name", "Who goes there?".to_owned()),
        Some(name) => ("load", format!("What does {name} carry?")),
    };
    let schema = json!({ "type": "object", "properties": { field: { "type": "string" } }, "required": [field] });
    asked(
        json!({ field: { "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } } }),
        known,
    )
}

fn ask_model() -> Answer {
    let message = json!({ "role": "user", "content": { "type": "text", "text": "What is upstream?" } });
    asked(
        json!({ "model": { "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 20 } } }),
        None,
    )
}

fn ask_roots() -> Answer {
    asked(json!({ "roots": { "method": "roots/list" } }), None)
}

fn asked(questions: Value, state: Option<String>) -> Answer {
    Ok(InputRequiredResult::new(Some(typed(questions)), state).into())
}
