//! A server with a session sends a request during a call of a client without one: the call is suspended until the
//! client returns.

use serde_json::{Map, Value, json};

use super::{
    compare::{At, as_minted, same},
    implied_messages,
    scene::Scene,
    vector::Vector,
};
use crate::kit::{player::PlayerConnection, prescribed::Heard};

/// A suspended call, and its client.
struct Parked {
    client: PlayerConnection,
    call: Heard,
    /// The client's request.
    first: Value,
    /// Keys of the server requests: in the vector, at the gateway, and at the server.
    keys: Vec<(String, String, Value)>,
    state: Value,
}

/// Plays a vector with a suspended call.
pub(super) async fn plays(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let given = vector.message();
    let parked = Parked::begin(&mut scene).await?;
    if given["params"]["inputResponses"].is_object() {
        parked.comes_back(&mut scene, given).await
    } else if given["method"] == "notifications/cancelled" {
        parked.withdraws(&mut scene, &given).await
    } else if given.get("result").is_some() || given.get("error").is_some() {
        parked.ends_late(given, &vector.expect["then"]["msg"]).await
    } else {
        parked.runs_out(&mut scene).await
    }
}

/// The server requests from before the vector: key, and parameters at the server.
fn questions(vector: &Vector) -> Vec<(String, Value, Value)> {
    let given = vector.message();
    let responses = given["params"]["inputResponses"].as_object().cloned().unwrap_or_default();
    let pending = vector.ctx["park"]["pending"].as_array();
    let keys: Vec<String> = match pending {
        Some(keys) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None if responses.is_empty() => vec!["r1".to_owned()],
        None => responses.keys().cloned().collect(),
    };
    let still = &vector.expect["result"]["inputRequests"];
    let named = [&vector.ctx["park"]["backend_request"], &given["params"]["requestId"]];
    let first = named.into_iter().find(|id| !id.is_null()).cloned().unwrap_or_else(|| json!("s1"));
    let asked = keys.into_iter().enumerate().map(|(index, key)| {
        let question = match responses.get(&key) {
            Some(answer) => implied_messages::asked(vector, answer, false),
            None if still[&key].is_object() => still[&key].clone(),
            None => implied_messages::asked(vector, &json!({ "action": "accept" }), false),
        };
        let id = if index == 0 { first.clone() } else { json!(format!("s-{index}")) };
        (key, question, id)
    });
    asked.collect()
}

impl Parked {
    /// The client calls, the server sends requests, and the client gets them.
    async fn begin(scene: &mut Scene<'_>) -> Result<Self, String> {
        let vector = scene.vector;
        let mut client = scene.client().await?;
        let mut first = vector.message();
        if first["params"]["inputResponses"].is_null() {
            first = json!({ "jsonrpc": "2.0", "method": "tools/call", "params": scene.request("tools/call") });
        }
        for member in ["inputResponses", "requestState"] {
            first["params"].as_object_mut().map(|params| params.remove(member));
        }
        first["id"] = json!("first");
        client.send(&first).await?;
        let call = scene.heard(|message| message["method"] == first["method"]).await?;
        let asked = questions(vector);
        call.say_at_once(asked.iter().map(|(_, question, id)| {
            let mut question = question.clone();
            question["jsonrpc"] = json!("2.0");
            question["id"] = id.clone();
            question
        }));
        let (_, answer) = client.answer(&first["id"]).await?;
        let result = &answer["result"];
        let names: Vec<String> = result["inputRequests"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
        if result["resultType"] != "input_required" || names.len() != asked.len() || !result["requestState"].is_string()
        {
            return Err(format!("the client is not asked: {answer}"));
        }
        let keys = asked.into_iter().zip(names).map(|((key, _, id), name)| (key, name, id)).collect();
        Ok(Self { client, call, first, keys, state: result["requestState"].clone() })
    }

    /// The client's next request, with these answers under the names of the vector.
    fn again(&self, id: &Value, responses: &Value) -> Value {
        let mut again = self.first.clone();
        again["id"] = id.clone();
        let responses = responses.as_object().into_iter().flatten().map(|(key, answer)| {
            let name = self.keys.iter().find(|(known, ..)| known == key).map_or(key, |(_, name, _)| name);
            (name.clone(), answer.clone())
        });
        again["params"]["inputResponses"] = Value::Object(responses.collect());
        again["params"]["requestState"] = self.state.clone();
        again
    }

    /// The client returns: the server gets its answer, or the client the remaining requests.
    async fn comes_back(mut self, scene: &mut Scene<'_>, given: Value) -> Result<(), String> {
        let expected = scene.vector.expected().ok_or("expects no message")?;
        self.client.send(&self.again(&given["id"], &given["params"]["inputResponses"])).await?;
        if self.keys.iter().any(|(.., id)| *id == expected["id"]) {
            let heard =
                scene.heard(|message| message.get("method").is_none() && message["id"] == expected["id"]).await?;
            same(&heard.message, expected, At::Server)?;
            // the call goes on, and ends with the returning request
            self.call.finish();
            return self.client.answer(&given["id"]).await.map(|_| ());
        }
        let (_, answer) = self.client.answer(&given["id"]).await?;
        same(&as_minted(&answer, expected), expected, At::Client)
    }

    /// The server withdraws its request: the client is not notified, and a late answer is ignored.
    async fn withdraws(mut self, scene: &mut Scene<'_>, given: &Value) -> Result<(), String> {
        self.call.say(given);
        // earlier messages on the exchange have been read when this is answered
        self.call.say(&json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" }));
        scene.heard(|message| message["id"] == "ping").await?;
        let responses = self.keys.iter().map(|(key, ..)| (key.clone(), json!({ "action": "accept", "content": {} })));
        self.client.send(&self.again(&json!("again"), &Value::Object(responses.collect()))).await?;
        self.call.finish();
        let (before, answer) = self.client.answer(&json!("again")).await?;
        if !before.is_empty() || answer.get("result").is_none() {
            return Err(format!("the client gets {before:?}, then {answer}"));
        }
        let mut next = self.first.clone();
        next["id"] = json!("next");
        self.client.send(&next).await?;
        let answers =
            |message: &Value| message.get("method").is_none() && message["id"] == given["params"]["requestId"];
        let heard = scene.heard(|message| answers(message) || message["method"] == next["method"]).await?;
        if answers(&heard.message) { Err(format!("the server gets {}", heard.message)) } else { Ok(()) }
    }

    /// The call ends while it is suspended: the client gets its result when it returns.
    async fn ends_late(mut self, mut given: Value, expected: &Value) -> Result<(), String> {
        given["id"] = self.call.message["id"].clone();
        self.call.say(&given);
        self.client.send(&self.again(&expected["id"], &json!({}))).await?;
        let (_, answer) = self.client.answer(&expected["id"]).await?;
        same(&answer, expected, At::Client)
    }

    /// The client does not return.
    async fn runs_out(self, scene: &mut Scene<'_>) -> Result<(), String> {
        let asked = &scene.vector.ctx["park"]["backend_request"];
        let steps = scene.vector.expect["seq"].as_array().ok_or("expects no steps")?;
        let wanted = |message: &Value| message["id"] == *asked || message["method"] == "notifications/cancelled";
        for step in steps {
            let Heard { message, .. } = scene.heard(wanted).await?;
            let mut expected = step["msg"].clone();
            if expected["method"] == "notifications/cancelled" {
                // id and text are the gateway's
                expected["params"] =
                    json!({ "requestId": self.call.message["id"], "reason": message["params"]["reason"] });
            }
            same(&message, &expected, At::Server)?;
        }
        Ok(())
    }
}
