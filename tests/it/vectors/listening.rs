//! Notifications outside of any call, if one side uses `subscriptions/listen` (2026-07-28).

use serde_json::{Value, json};

use super::{
    compare::{At, same},
    forwarding::expected,
    scene::Scene,
    stage::Stage,
    tasks,
};
use crate::{
    kit::{
        player::{Binding, PlayerConnection},
        prescribed::Heard,
    },
    support::in_time,
};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A notification reaches the listens whose filter includes it, each under its own id.
pub(super) async fn tells(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let (given, expected) = (vector.message(), expected(vector)?);
    let mut client = scene.client().await?;
    let call = to_all(&mut scene, &mut client).await?;
    call.say_aside(&given);
    // another listen gets its own notification, and nothing before it
    call.say_aside(&json!({ "jsonrpc": "2.0", "method": "notifications/prompts/list_changed" }));
    let others = vector.ctx["listens"].as_object().into_iter().flatten();
    let others = others.filter(|(_, filter)| filter["promptsListChanged"] == true).count();
    let mut came = Vec::new();
    while came.len() <= others {
        came.push(client.next().await?);
    }
    let (wanted, rest): (Vec<&Value>, Vec<&Value>) =
        came.iter().partition(|message| message["method"] == expected["method"]);
    match wanted[..] {
        [got] if rest.len() == others => same(got, expected, At::Client),
        _ => Err(format!("the client gets {came:?}")),
    }
}

/// Opens the client's listens; returns an ended call, by which the server can send messages.
pub(super) async fn to_all(scene: &mut Scene<'_>, client: &mut PlayerConnection) -> Result<Heard, String> {
    let made = if tasks::tells_of_one(scene) { Some(tasks::make(scene, client).await?) } else { None };
    for (id, filter) in scene.vector.ctx["listens"].as_object().into_iter().flatten() {
        listen(client, id, filter).await?;
    }
    if let Some(call) = made {
        return Ok(call);
    }
    let call = scene.call(client, &json!("call")).await?;
    call.finish();
    client.answer(&json!("call")).await?;
    Ok(call)
}

/// A listen ends at the server: the gateway reopens it, unnoticed by a client with a session.
pub(super) async fn listens_again(mut scene: Scene<'_>) -> Result<(), String> {
    let mut given = scene.vector.message();
    let listens = |message: &Value| message["method"] == "subscriptions/listen";
    let mut client = scene.client().await?;
    client.listen().await?;
    let heard = scene.heard(listens).await?;
    given["id"] = heard.message["id"].clone();
    given["result"]["_meta"][SUBSCRIPTION] = heard.message["id"].clone();
    heard.say(&given);
    scene.heard(listens).await?;
    // changes without an open listen are unknown, so a client may be notified (`translation` 4b.12)
    while let Some(message) = client.came_already() {
        let message = message?;
        let looks = message["method"].as_str().is_some_and(|method| method.ends_with("/list_changed"));
        if !looks || message.get("params").is_some() {
            return Err(format!("the client gets {message}"));
        }
    }
    Ok(())
}

/// The gateway stops during a client's listen. On standard input and output the client has one of its own.
pub(super) async fn ends(scene: Scene<'_>, stage: Stage) -> Result<(), String> {
    let is_on_channels = scene.vector.message()["event"].as_str().is_some_and(|event| event.contains("stdio"));
    if is_on_channels {
        let mut client = listening(&scene, Binding::Stdio).await?;
        client.stop_gateway();
        hears_the_end(&scene, &mut client).await.map_err(|fault| format!("on pipes: {fault}"))?;
        in_time("the end of the gateway on pipes", client.close()).await;
    }
    let binding = if is_on_channels { Binding::WebSocket } else { Binding::Streamable };
    let mut client = listening(&scene, binding).await?;
    let heard = tokio::join!(hears_the_end(&scene, &mut client), stage.stop()).0;
    heard.map_err(|fault| format!("over {binding:?}: {fault}"))
}

/// A client with the listen of the vector.
async fn listening(scene: &Scene<'_>, binding: Binding) -> Result<PlayerConnection, String> {
    let mut client = scene.client_over(binding).await?;
    let first = scene.vector.steps("client", "out").next().ok_or("expects no steps")?;
    let id = first["msg"]["id"].as_str().ok_or("who listens?")?;
    listen(&mut client, id, &json!({ "toolsListChanged": true })).await?;
    Ok(client)
}

/// The messages at the end of a listen.
async fn hears_the_end(scene: &Scene<'_>, client: &mut PlayerConnection) -> Result<(), String> {
    for step in scene.vector.steps("client", "out") {
        same(&client.next().await?, &step["msg"], At::Client)?;
    }
    Ok(())
}

async fn listen(client: &mut PlayerConnection, id: &str, filter: &Value) -> Result<(), String> {
    let params = json!({ "notifications": filter });
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params })).await?;
    let acknowledged = client.next().await?;
    let params = &acknowledged["params"];
    let fits = acknowledged["method"] == ACKNOWLEDGED
        && params["_meta"][SUBSCRIPTION] == id
        && params["notifications"]["taskIds"] == filter["taskIds"];
    if fits { Ok(()) } else { Err(format!("the listen is not acknowledged: {acknowledged}")) }
}
