//! The task that a vector implies: created by its client, at its server, before requests and notifications about it.

use serde_json::{Value, json};

use super::{plan::MODERN, scene::Scene};
use crate::kit::{player::PlayerConnection, prescribed::Heard};

/// True if the server's message is about a task that the client must have created.
pub(super) fn tells_of_one(scene: &Scene<'_>) -> bool {
    scene.vector.message()["method"].as_str().is_some_and(|method| method.starts_with("notifications/tasks"))
}

/// True if the client's request, or the server's answer, is about a task that the client must have created.
pub(super) fn concerns_one(scene: &Scene<'_>) -> bool {
    let message = scene.vector.message();
    let method = message["method"].as_str().or_else(|| scene.vector.answered());
    matches!(method, Some("tasks/get" | "tasks/result" | "tasks/cancel"))
}

/// Creates the task; returns the call that created it, by which the server can send messages.
pub(super) async fn make(scene: &mut Scene<'_>, client: &mut PlayerConnection) -> Result<Heard, String> {
    let id = json!("make");
    let mut params = scene.request("tools/call");
    if !client.is_stateless() {
        params["task"] = json!({});
    }
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await?;
    let call = scene.heard(|message| message["method"] == "tools/call").await?;
    let message = scene.vector.message();
    let task_id = message["params"]["taskId"].as_str().or_else(|| message["result"]["taskId"].as_str()).unwrap_or("T1");
    let mut task = json!({ "taskId": task_id, "status": "working",
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z" });
    let from_client = scene.vector.direction.starts_with("client");
    let server = if from_client { &scene.vector.to } else { &scene.vector.from };
    let result = if server == MODERN {
        task["resultType"] = "task".into();
        task["ttlMs"] = Value::Null;
        task
    } else {
        task["ttl"] = Value::Null;
        json!({ "task": task })
    };
    call.answer(&result);
    client.answer(&id).await?;
    Ok(call)
}
