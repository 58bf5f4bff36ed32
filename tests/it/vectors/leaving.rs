//! A client whose response stream breaks off: this cancels the call in one version only.

use serde_json::json;

use super::{
    compare::{At, same},
    scene::Scene,
};
use crate::kit::prescribed::Came;

/// The client of a call loses its stream.
pub(super) async fn plays(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut client = scene.client().await?;
    let call = scene.call_with(&mut client, &json!(7), &json!({ "progressToken": "t" })).await?;
    let token = &call.message["params"]["_meta"]["progressToken"];
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": 1 } });
    // the stream is open once a message came on it
    call.say(&progress);
    client.next().await?;
    client.leave();
    if let Some(expected) = vector.expected() {
        let mut expected = expected.clone();
        expected["params"]["requestId"] = call.message["id"].clone();
        let heard = scene.heard(|message| message["method"] == expected["method"]).await?;
        return same(&heard.message, &expected, At::Server);
    }
    // another call comes and goes, and the first is still open
    let next = scene.call(&mut client, &json!("next")).await?;
    next.finish();
    client.answer(&json!("next")).await?;
    if call.is_closed() {
        return Err("the call at the server has ended".to_owned());
    }
    while let Some(came) = scene.came_already() {
        match came {
            Came::Message(heard) if heard.message["method"] != "notifications/cancelled" => {}
            other => return Err(format!("the server gets {other:?}")),
        }
    }
    call.finish();
    client.resume().await?;
    client.answer(&json!(7)).await.map(|_| ())
}
