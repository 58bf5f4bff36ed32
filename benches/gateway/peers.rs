//! The fast backends: they answer every tool call with the same small result, and know just enough of MCP.

use std::io::{BufRead as _, Write as _};

use anyhow::Result;
use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// What every answer to a tool call holds.
pub(crate) const ANSWER: &str = "the boat has passed";

/// The answer to a tool call, as it goes on the wire after the id.
const RESULT: &str = r#"{"content":[{"type":"text","text":"the boat has passed"}]}"#;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Serves Streamable HTTP on a port of loopback until it is killed.
pub(crate) async fn http(port: u16) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let app = Router::new().route("/mcp", post(answer).delete(async || StatusCode::NO_CONTENT));
    Ok(axum::serve(listener, app).await?)
}

/// Serves standard input until it closes.
pub(crate) fn stdio() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        if let Some(mut answer) = reply(line?.as_bytes()) {
            answer.push('\n');
            out.write_all(answer.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}

async fn answer(_: HeaderMap, body: Bytes) -> Response {
    match reply(&body) {
        Some(answer) => {
            ([(header::CONTENT_TYPE.as_str(), "application/json"), ("mcp-session-id", "bench")], answer).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The response to a message; none to a notification or to what is no JSON-RPC.
fn reply(message: &[u8]) -> Option<String> {
    let request: Request<'_> = serde_json::from_slice(message).ok()?;
    let id = request.id?.get();
    let result = match request.method? {
        "tools/call" => RESULT.to_owned(),
        "tools/list" => {
            let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
            json!({ "tools": [{ "name": "pass", "description": "Lets a boat pass", "inputSchema": schema }] })
                .to_string()
        }
        "initialize" => hello(request.params?.get()).to_string(),
        "ping" => "{}".to_owned(),
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn hello(params: &str) -> Value {
    let offered = serde_json::from_str::<Value>(params).ok().map(|params| params["protocolVersion"].clone());
    json!({
        "protocolVersion": offered.unwrap_or_else(|| "2025-11-25".into()),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "bench", "version": "1" },
    })
}
