//! The server that users see instead of the real one until they have given what the real one needs, or while it needs
//! more. It has one tool, which leads to the page for that.

use serde_json::{Value, json};

use super::authorization_required;
use crate::{
    mcp::{Call, ClientInfo, ErrorObject, Method, Outcome, Payload, Reply, Revision, json as text},
    model::{AccessPage, BackendId},
};

/// Name of the tool. Calls of it never reach the real server.
pub const CONNECT_TOOL: &str = "connect_account";

/// Stands in for a user's server until the user has unlocked it at `page`.
pub(super) struct Unconnected {
    pub(super) backend: BackendId,
    pub(super) page: AccessPage,
}

// === impl Unconnected ===

impl Unconnected {
    /// Answers a call of the user.
    pub(super) fn call(&self, call: &Call) -> Reply {
        match self.outcome(&call.method, &call.context.client) {
            Some(outcome) => Reply::done(outcome),
            None => silent(&call.method),
        }
    }

    /// The outcome that leads the user to the page; `None` if the method has no form for that.
    pub(super) fn outcome(&self, method: &Method, client: &ClientInfo) -> Option<Outcome> {
        match method {
            Method::Discover => Some(Outcome::Complete(discovered(&self.backend))),
            Method::ToolsList => Some(Outcome::Complete(result(&json!({ "tools": [self.tool()] })))),
            method => authorization_required::outcome(method, client, &self.page),
        }
    }

    fn tool(&self) -> Value {
        let backend = &self.backend;
        json!({
            "name": CONNECT_TOOL,
            "title": format!("Connect {backend}"),
            "description": format!("Connects {backend} for this user, on a page of the gateway. Its own tools are listed after that."),
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        })
    }
}

/// Answers a call of the gateway itself, which has no login of its own: all lists are empty.
pub(super) fn of_gateway(backend: &BackendId, method: &Method) -> Reply {
    match method {
        Method::Discover => Reply::complete(discovered(backend)),
        Method::ToolsList => complete(&json!({ "tools": [] })),
        method => silent(method),
    }
}

/// True for a call of the tool that leads to the page. Clients repeat it after the user has been there.
pub(super) fn is_own_tool(call: &Call) -> bool {
    call.method == Method::ToolsCall
        && call.params.member("name").and_then(text::unquote).as_deref() == Some(CONNECT_TOOL)
}

/// Result of that tool for a user who is done.
pub(super) fn connected(backend: &BackendId) -> Reply {
    let text = format!("{backend} is connected. List the tools again to see its own.");
    complete(&json!({ "content": [{ "type": "text", "text": text }] }))
}

fn silent(method: &Method) -> Reply {
    match method {
        Method::Ping | Method::SetLevel => complete(&json!({})),
        method if method.is_notification() => Reply::complete(Payload::absent(Revision::NEWEST_MODERN)),
        method => Reply::failed(ErrorObject::method_not_found(method.as_str())),
    }
}

fn discovered(backend: &BackendId) -> Payload {
    let discovered = json!({
        "supportedVersions": [Revision::NEWEST_MODERN.as_str()],
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": backend.as_str(), "version": env!("CARGO_PKG_VERSION") },
    });
    Payload::of(Revision::NEWEST_MODERN, &discovered)
}

fn complete(content: &Value) -> Reply {
    Reply::complete(result(content))
}

/// Translation adds what newer versions require in a result.
fn result(content: &Value) -> Payload {
    Payload::of(Revision::NEWEST_LEGACY, content)
}
