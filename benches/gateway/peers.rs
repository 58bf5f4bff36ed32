//! The fast backends: they answer tool calls with prepared results, and support only the necessary parts of MCP.

use std::{
    convert::Infallible,
    io::{BufRead as _, Write as _},
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
    serve::ListenerExt as _,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The text in every answer to a tool call.
pub(crate) const ANSWER: &str = "the boat has passed";
/// Bytes of the text that the tool `large` adds.
const LARGE: usize = 100_000;
/// Progress notifications that the tool `notes` sends before its answer.
pub(crate) const NOTES: usize = 20;

/// Version of the protocol that a peer speaks: 2025-11-25 or 2026-07-28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The results of a tool call, as written after the id.
const LEGACY_RESULT: &str = r#"{"content":[{"type":"text","text":"the boat has passed"}]}"#;
const MODERN_RESULT: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"the boat has passed"}]}"#;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Parameters of a tool call.
#[derive(Deserialize)]
struct Call<'a> {
    name: &'a str,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

/// Serves Streamable HTTP on a loopback port until it is killed.
pub(crate) async fn http(port: u16, era: Era) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| {
        // best effort: without it, small messages wait for each other
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router(era)).await?)
}

/// Its endpoint, and an event stream that stays silent.
pub(crate) fn router(era: Era) -> Router {
    let answer = async move |_: HeaderMap, body: Bytes| answer(era, &body);
    Router::new()
        .route("/mcp", post(answer).delete(async || StatusCode::NO_CONTENT))
        .route("/stream", get(async || events(stream::pending())))
}

/// Serves standard input until it closes.
pub(crate) fn stdio(era: Era) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        if let Some(mut answer) = reply(era, line?.as_bytes()) {
            answer.push('\n');
            out.write_all(answer.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}

fn answer(era: Era, body: &[u8]) -> Response {
    let notes = notes(body);
    match reply(era, body) {
        Some(answer) if !notes.is_empty() => {
            let messages = stream::iter(notes.into_iter().chain([answer])).then(async |message| {
                // each message is written separately
                tokio::task::yield_now().await;
                Ok(format!("event: message\ndata: {message}\n\n"))
            });
            events(messages)
        }
        Some(answer) => {
            ([(header::CONTENT_TYPE.as_str(), "application/json"), ("mcp-session-id", "bench")], answer).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

fn events(messages: impl Stream<Item = Result<String, Infallible>> + Send + 'static) -> Response {
    ([(header::CONTENT_TYPE.as_str(), "text/event-stream")], Body::from_stream(messages)).into_response()
}

/// The progress notifications before the answer to a message.
fn notes(message: &[u8]) -> Vec<String> {
    let request = serde_json::from_slice::<Request<'_>>(message).ok();
    let call = request.and_then(|request| serde_json::from_str::<Call<'_>>(request.params?.get()).ok());
    let call = call.filter(|call| call.name == "notes");
    let Some(token) = call.and_then(|call| call.meta?.progress_token) else { return Vec::new() };
    let note = |n| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n},"total":{NOTES}}}}}"#
        )
    };
    (1..=NOTES).map(note).collect()
}

/// The response to a message; none to a notification or to anything but JSON-RPC.
pub(crate) fn reply(era: Era, message: &[u8]) -> Option<String> {
    let request: Request<'_> = serde_json::from_slice(message).ok()?;
    let id = request.id?.get();
    let result = match (request.method?, era) {
        ("tools/call", _) if is_large(request.params) => large(era),
        ("tools/call", Era::Legacy) => LEGACY_RESULT.to_owned(),
        ("tools/call", Era::Modern) => MODERN_RESULT.to_owned(),
        ("tools/list", _) => tools(era).to_string(),
        ("initialize", Era::Legacy) => hello(request.params?.get()).to_string(),
        ("ping", Era::Legacy) => "{}".to_owned(),
        ("server/discover", Era::Modern) => cacheable(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "bench", "version": "1" } },
        }))
        .to_string(),
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn is_large(params: Option<&RawValue>) -> bool {
    params
        .and_then(|params| serde_json::from_str::<Call<'_>>(params.get()).ok())
        .is_some_and(|call| call.name == "large")
}

fn large(era: Era) -> String {
    let small = if era == Era::Modern { MODERN_RESULT } else { LEGACY_RESULT };
    small.replace(ANSWER, &format!("{ANSWER}{}", " and so on".repeat(LARGE / 10)))
}

fn tools(era: Era) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tool = |name: &str| json!({ "name": name, "description": "Lets a boat pass", "inputSchema": schema });
    let list = json!({ "tools": [tool("pass"), tool("large"), tool("notes")] });
    if era == Era::Modern { cacheable(list) } else { list }
}

/// A complete result of 2026-07-28 that stays valid for an hour.
fn cacheable(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 3_600_000.into();
    result["cacheScope"] = "private".into();
    result
}

fn hello(params: &str) -> Value {
    let offered = serde_json::from_str::<Value>(params).ok().map(|params| params["protocolVersion"].clone());
    json!({
        "protocolVersion": offered.unwrap_or_else(|| "2025-11-25".into()),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "bench", "version": "1" },
    })
}
