//! Probe of a server's era, and the consequences of its answer.

use serde_json::Value;

use super::{
    compare::{At, same},
    scene::Scene,
};
use crate::kit::prescribed::{Came, Heard};

/// The gateway probes, the server answers as in the vector, and the gateway goes on.
pub(super) async fn plays(mut scene: Scene<'_>) -> Result<(), String> {
    let expect = &scene.vector.expect;
    scene.heard(|message| message["method"] == "server/discover").await?;
    if expect["state"] == "era=modern" {
        // it is probed again, and then gets a listen
        let heard =
            scene.heard(|message| ["initialize", "subscriptions/listen"].map(Value::from).contains(&message["method"]));
        let heard = heard.await?;
        let version = &heard.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        return if version.is_string() { Ok(()) } else { Err(format!("the server gets {}", heard.message)) };
    }
    // after an exited process, the next one is not probed
    let ended = expect["next"].as_str().is_some_and(|next| next.starts_with("respawn"));
    let mut closed = false;
    let greeting = loop {
        match scene.came().await? {
            Came::Closed => closed = true,
            Came::Message(Heard { message, .. }) if message["method"] == "initialize" => break message,
            Came::Message(Heard { message, .. }) => return Err(format!("the server gets {message}")),
        }
    };
    if ended && !closed {
        return Err("the handshake is made with the process that was asked".to_owned());
    }
    match scene.vector.expected() {
        Some(expected) => same(&greeting, expected, At::Server),
        None => Ok(()),
    }
}
