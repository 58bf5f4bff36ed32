//! A task at a server with sessions wants to know something of a client without one, which takes the questions with the
//! task and brings the answers by `tasks/update`.

use serde_json::{Map, Value, json};

use super::{
    canned,
    client::Client,
    compare::{At, same},
    scene::Scene,
    servers::Heard,
};

/// The task that asks, and the names of its questions.
struct Task {
    id: Value,
    /// How the gateway named the questions that the vector has under other names.
    names: Map<String, Value>,
    /// The wait for the result, on which the server asks.
    wait: Heard,
}

/// Makes the task, lets it ask, and plays what the client answers.
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
    client.post(&given).await?;
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
    async fn begin(scene: &mut Scene<'_>, client: &mut Client) -> Result<Self, String> {
        let id = scene.vector.message()["params"]["taskId"].clone();
        let call = scene.call(client, &json!("make")).await?;
        answer(&call, &json!({ "task": told(&id, "working") }));
        let (_, made) = client.answer(&json!("make")).await?;
        if made["result"]["resultType"] != "task" || made["result"]["taskId"] != id {
            return Err(format!("the client gets no task: {made}"));
        }
        let mut wait = None;
        // a question that takes its time is told with the task when it is asked about again
        loop {
            asks_about(scene, client, &id, "input_required").await?;
            if wait.is_none() {
                let result = scene.heard(|message| message["method"] == "tasks/result").await?;
                scene.questions(&id).iter().for_each(|question| result.say(question));
                wait = Some(result);
            }
            let (_, shown) = client.answer(&json!("about")).await?;
            let Some(asked) = shown["result"]["inputRequests"].as_object() else { continue };
            let keys = scene.vector.ctx["task_inputs"].as_object().into_iter().flatten().map(|(key, _)| key.clone());
            let names = keys.zip(asked.keys().map(|name| json!(name))).collect();
            return wait.map(|wait| Self { id, names, wait }).ok_or_else(|| "nobody waits".to_owned());
        }
    }

    /// The client is told what the task came to.
    async fn ends(self, scene: &mut Scene<'_>, client: &mut Client) -> Result<(), String> {
        self.wait.finish();
        asks_about(scene, client, &self.id, "completed").await?;
        let (_, shown) = client.answer(&json!("about")).await?;
        let is_done = shown["result"]["result"]["content"][0]["text"] == "done";
        if is_done { Ok(()) } else { Err(format!("the task did not come to its end: {shown}")) }
    }
}

impl Scene<'_> {
    /// What the task wants to know, as its server asks it.
    fn questions(&self, task: &Value) -> Vec<Value> {
        let vector = self.vector;
        let responses = &vector.message()["params"]["inputResponses"];
        let inputs = vector.ctx["task_inputs"].as_object().into_iter().flatten();
        let question = |(key, input): (&String, &Value)| {
            let mut question = canned::asked(vector, &responses[key], false);
            question["jsonrpc"] = json!("2.0");
            question["id"] = input["backend_request_id"].clone();
            question["params"]["_meta"] = json!({ "io.modelcontextprotocol/related-task": { "taskId": task } });
            question
        };
        inputs.map(question).collect()
    }
}

/// The client asks about the task, and its server says how it is.
async fn asks_about(scene: &mut Scene<'_>, client: &mut Client, task: &Value, status: &str) -> Result<(), String> {
    let params = json!({ "taskId": task });
    client.post(&json!({ "jsonrpc": "2.0", "id": "about", "method": "tasks/get", "params": params })).await?;
    let asked = scene.heard(|message| message["method"] == "tasks/get").await?;
    answer(&asked, &told(task, status));
    Ok(())
}

fn answer(heard: &Heard, result: &Value) {
    heard.say(&json!({ "jsonrpc": "2.0", "id": heard.message["id"], "result": result }));
}

/// The task, as a server of 2025-11-25 tells it.
fn told(id: &Value, status: &str) -> Value {
    json!({ "taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null })
}
