//! Answers of the gateway itself to a server.

use serde_json::json;

use super::{
    compare::{At, same},
    scene::Scene,
};
use crate::kit::prescribed::{Came, Heard};

/// The server's message, and the gateway's answer.
pub(super) async fn answers(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut client = scene.client().await?;
    let call = scene.call(&mut client, &json!("call")).await?;
    let nothing_runs = vector.ctx["in_flight"].as_array().is_some_and(Vec::is_empty);
    let given = vector.given();
    if nothing_runs {
        call.finish();
        client.answer(&json!("call")).await?;
        call.say_aside(&given);
    } else {
        call.say(&given);
    }
    let Heard { message, .. } =
        scene.heard(|message| message.get("method").is_none() && message["id"] == given["id"]).await?;
    same(&message, &vector.expect, At::Server)
}

/// The server answered the handshake with an unknown version: the connection ends, and a fresh one begins.
pub(super) async fn greets_again(mut scene: Scene<'_>) -> Result<(), String> {
    let steps = scene.vector.expect["seq"].as_array().ok_or("expects no steps")?.clone();
    let wanted = steps.iter().find_map(|step| step.get("msg")).ok_or("expects no message")?;
    let (mut closed, mut greeted) = (false, false);
    while !(closed && greeted) {
        match scene.came().await.map_err(|nothing| format!("{nothing}; closed: {closed}, greeted: {greeted}"))? {
            Came::Closed => closed = true,
            Came::Message(Heard { message, .. }) => {
                greeted |= message["method"] == "initialize"
                    && message["params"]["protocolVersion"] == wanted["params"]["protocolVersion"]
                    && message["params"]["capabilities"] == wanted["params"]["capabilities"]
                    && message["params"]["clientInfo"]["version"].is_string();
            }
        }
    }
    Ok(())
}
