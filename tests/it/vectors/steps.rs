//! A sequence of expected messages: the input of a vector, then each message and its receiver.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    compare::{At, same},
    listening,
    scene::Scene,
    tasks,
};
use crate::kit::{
    player::{PlayerConnection, SOON},
    prescribed::Heard,
};

/// State of the steps.
struct Played {
    client: PlayerConnection,
    /// The messages that the server got, by the id in the vector.
    heard: HashMap<String, Heard>,
    /// The server requests that the client got: ids in the vector, and real ids.
    asked: HashMap<String, Value>,
}

/// Plays the steps.
pub(super) async fn plays(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let (client, given) = (scene.client().await?, vector.message());
    let mut played = Played { client, heard: HashMap::new(), asked: HashMap::new() };
    for (client_id, server_id) in vector.ctx["map"].as_object().into_iter().flatten() {
        let id = client_id.parse::<u64>().map_or_else(|_| json!(client_id), Value::from);
        let call = scene.call(&mut played.client, &id).await?;
        played.heard.insert(server_id.to_string(), call);
    }
    if vector.direction == "backend>client" {
        listening::to_all(&mut scene, &mut played.client).await?.say_aside(&given);
    } else {
        if tasks::concerns_one(&scene) {
            tasks::make(&mut scene, &mut played.client).await?;
        }
        played.client.send(&given).await?;
    }
    for step in vector.expect["seq"].as_array().into_iter().flatten() {
        let is = |side: &str, dir: &str| step["side"] == side && step["dir"] == dir;
        let message = &step["msg"];
        if let Some(act) = step["act"].as_str() {
            played.acts(act).await?;
        } else if is("backend", "out") {
            played.arrives(&mut scene, message).await?;
        } else if is("backend", "in") {
            played.answers(message)?;
        } else if is("client", "out") {
            played.comes(message).await?;
        } else if is("client", "in") {
            let mut message = message.clone();
            message["id"] = played.asked.get(&message["id"].to_string()).cloned().ok_or("nothing was asked")?;
            played.client.send(&message).await?;
        }
    }
    Ok(())
}

impl Played {
    async fn arrives(&mut self, scene: &mut Scene<'_>, expected: &Value) -> Result<(), String> {
        if expected.get("method").is_some() {
            let heard = scene.gets(expected).await?;
            self.heard.insert(expected["id"].to_string(), heard);
            return Ok(());
        }
        let heard = scene.heard(|message| message.get("method").is_none() && message["id"] == expected["id"]).await?;
        same(&heard.message, expected, At::Server)
    }

    fn answers(&self, message: &Value) -> Result<(), String> {
        let call = self.heard.get(&message["id"].to_string()).ok_or("the server was not asked")?;
        let mut message = message.clone();
        message["id"] = call.message["id"].clone();
        call.say(&message);
        Ok(())
    }

    async fn comes(&mut self, expected: &Value) -> Result<(), String> {
        let got = match expected.get("method") {
            Some(_) => self.client.next().await?,
            None => self.client.answer(&expected["id"]).await?.1,
        };
        self.asked.insert(expected["id"].to_string(), got["id"].clone());
        same(&got, expected, At::Client)
    }

    async fn acts(&self, act: &str) -> Result<(), String> {
        let id = act.rsplit(' ').next().unwrap_or_default();
        let call = self.heard.get(id).ok_or("no such call is open")?;
        let closed = timeout(SOON, call.closed()).await;
        closed.map_err(|_| "the response stream stays open".to_owned())
    }
}
