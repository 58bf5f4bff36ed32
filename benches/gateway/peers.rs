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

/// Version of the protocol that a peer speaks: 2025-11-25 or 2026-07-28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The answers to a tool call, as they go on the wire after the id.
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

/// Serves Streamable HTTP on a port of loopback until it is killed.
pub(crate) async fn http(port: u16, era: Era) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let answer = async move |_: HeaderMap, body: Bytes| answer(era, &body);
    let app = Router::new().route("/mcp", post(answer).delete(async || StatusCode::NO_CONTENT));
    Ok(axum::serve(listener, app).await?)
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
    match reply(era, body) {
        Some(answer) => {
            ([(header::CONTENT_TYPE.as_str(), "application/json"), ("mcp-session-id", "bench")], answer).into_response()
        }
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The response to a message; none to a notification or to what is no JSON-RPC.
pub(crate) fn reply(era: Era, message: &[u8]) -> Option<String> {
    let request: Request<'_> = serde_json::from_slice(message).ok()?;
    let id = request.id?.get();
    let result = match (request.method?, era) {
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

fn tools(era: Era) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let list = json!({ "tools": [{ "name": "pass", "description": "Lets a boat pass", "inputSchema": schema }] });
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
