//! Input requests of a task at a server with sessions, for a client without one, which fetches them with the task and
//! answers by `tasks/update`.

use serde_json::{Map, Value, json};

use super::{
    compare::{At, same},
    implied_messages,
    scene::Scene,
};
use crate::kit::{player::PlayerConnection, prescribed::Heard};

/// The task, and the names of its input requests.
struct Task {
    id: Value,
    /// The gateway's names of the input requests, by those of the vector.
    names: Map<String, Value>,
    /// The call that waits for the result, on which the server sends input requests.
    wait: Heard,
}

/// Creates the task, lets it send its input requests, and plays the client's answers.
pub(super) async fn plays(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut given = vector.message();
    let mut client = scene.client().await?;
    let task = Task::begin(&mut scene, &mut client).await?;
    let responses = given["params"]["inputResponses"].as_object().ok_or("answers nothing")?;
    let named = responses.iter().map(|(key, answer)| {
        let name = task.names.get(key).and_then(Value::as_str).unwrap_or(key);
        (name.to_owned(), answer.clone())
    });
    given["params"]["inputResponses"] = Value::Object(named.collect());
    client.send(&given).await?;
    for step in vector.expect["seq"].as_array().ok_or("expects no steps")? {
        let expected = &step["msg"];
        if step["side"] == "backend" {
            let answers = |message: &Value| message.get("method").is_none() && message["id"] == expected["id"];
            same(&scene.heard(answers).await?.message, expected, At::Server)?;
        } else {
            same(&client.answer(&expected["id"]).await?.1, expected, At::Client)?;
        }
    }
    task.ends(&mut scene, &mut client).await
}

impl Task {
    async fn begin(scene: &mut Scene<'_>, client: &mut PlayerConnection) -> Result<Self, String> {
        let id = scene.vector.message()["params"]["taskId"].clone();
        let call = scene.call(client, &json!("make")).await?;
        call.answer(&json!({ "task": told(&id, "working") }));
        let (_, made) = client.answer(&json!("make")).await?;
        if made["result"]["resultType"] != "task" || made["result"]["taskId"] != id {
            return Err(format!("the client gets no task: {made}"));
        }
        let mut wait = None;
        // a late input request comes with a later poll
        loop {
            asks_about(scene, client, &id, "input_required").await?;
            if wait.is_none() {
                let result = scene.heard(|message| message["method"] == "tasks/result").await?;
                scene.questions(&id).iter().for_each(|question| result.say(question));
                wait = Some(result);
            }
            let (_, shown) = client.answer(&json!("about")).await?;
            let inputs = scene.vector.ctx["task_inputs"].as_object().ok_or("what does it ask?")?;
            let asked = shown["result"]["inputRequests"].as_object().filter(|asked| asked.len() == inputs.len());
            let Some(asked) = asked else { continue };
            let keys = inputs.keys().cloned();
            let names = keys.zip(asked.keys().map(|name| json!(name))).collect();
            return wait.map(|wait| Self { id, names, wait }).ok_or_else(|| "nobody waits".to_owned());
        }
    }

    /// The client gets the result of the task.
    async fn ends(self, scene: &mut Scene<'_>, client: &mut PlayerConnection) -> Result<(), String> {
        self.wait.finish();
        asks_about(scene, client, &self.id, "completed").await?;
        let (_, shown) = client.answer(&json!("about")).await?;
        let is_done = shown["result"]["result"]["content"][0]["text"] == "done";
        if is_done { Ok(()) } else { Err(format!("the task did not come to its end: {shown}")) }
    }
}

impl Scene<'_> {
    /// The input requests, as the server sends them.
    fn questions(&self, task: &Value) -> Vec<Value> {
        let vector = self.vector;
        let responses = &vector.message()["params"]["inputResponses"];
        let inputs = vector.ctx["task_inputs"].as_object().into_iter().flatten();
        let question = |(key, input): (&String, &Value)| {
            let mut question = implied_messages::asked(vector, &responses[key], false);
            question["jsonrpc"] = json!("2.0");
            question["id"] = input["backend_request_id"].clone();
            question["params"]["_meta"] = json!({ "io.modelcontextprotocol/related-task": { "taskId": task } });
            question
        };
        inputs.map(question).collect()
    }
}

/// The client polls the task, and the server returns its status.
async fn asks_about(
    scene: &mut Scene<'_>,
    client: &mut PlayerConnection,
    task: &Value,
    status: &str,
) -> Result<(), String> {
    let params = json!({ "taskId": task });
    client.send(&json!({ "jsonrpc": "2.0", "id": "about", "method": "tasks/get", "params": params })).await?;
    let asked = scene.heard(|message| message["method"] == "tasks/get").await?;
    asked.answer(&told(task, status));
    Ok(())
}

/// The task, as a server of 2025-11-25 returns it.
fn told(id: &Value, status: &str) -> Value {
    json!({ "taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null })
}
