//! What the gateway answers to a server by itself.

use serde_json::{Value, json};

use super::{
    compare::{At, same},
    scene::Scene,
    servers::{Came, Heard},
};

/// What the server sends, and what the gateway answers.
pub(super) async fn answers(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut client = scene.client().await?;
    let call = scene.call(&mut client, &json!("call"), &Value::Null).await?;
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

/// The server was greeted in a version that nobody knows: that connection ends, and a fresh one begins.
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

/// A call that is answered by a question, to a client without a session that does not come back.
pub(super) async fn parks(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut client = scene.client().await?;
    let call = scene.call(&mut client, &json!("call"), &Value::Null).await?;
    let params = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let asked = &vector.ctx["park"]["backend_request"];
    call.say(&json!({ "jsonrpc": "2.0", "id": asked, "method": "elicitation/create", "params": params }));
    let (_, answer) = client.answer(&json!("call")).await?;
    if answer["result"]["resultType"] != "input_required" {
        return Err(format!("the client is not asked: {answer}"));
    }
    let steps = vector.expect["seq"].as_array().ok_or("expects no steps")?;
    let wanted = |message: &Value| message["id"] == *asked || message["method"] == "notifications/cancelled";
    for step in steps {
        let Heard { message, .. } = scene.heard(wanted).await?;
        let mut expected = step["msg"].clone();
        if expected["method"] == "notifications/cancelled" {
            // the id is the gateway's, and the words are its own
            expected["params"] = json!({ "requestId": call.message["id"], "reason": message["params"]["reason"] });
        }
        same(&message, &expected, At::Server)?;
    }
    Ok(())
}
