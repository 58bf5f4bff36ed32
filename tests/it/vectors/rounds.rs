//! A server without sessions ends a call with requests, and is called again with the answers.

use serde_json::{Value, json};

use super::{
    compare::{At, as_minted, same},
    forwarding::expected,
    implied_messages,
    scene::Scene,
};
use crate::kit::player::PlayerConnection;

/// The server's requests reach the client with a session during its call, or the server gets an error.
pub(super) async fn asks(scene: &mut Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let method = vector.answered().ok_or("what is answered?")?;
    let mut client = scene.client().await?;
    let expected = expected(vector)?;
    let is_asked = expected.get("method").is_some();
    let id = if is_asked { json!("call") } else { expected["id"].clone() };
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": scene.request(method) })).await?;
    let got = client.next().await?;
    same(&as_minted(&got, expected), expected, At::Client)
}

/// The client with a session answers, and the server is called again.
pub(super) async fn answered(
    scene: &mut Scene<'_>,
    client: &mut PlayerConnection,
    mut given: Value,
) -> Result<(), String> {
    let vector = scene.vector;
    let again = expected(vector)?;
    let method = vector.answered().ok_or("what is answered?")?;
    let call = json!({ "jsonrpc": "2.0", "id": "call", "method": again["method"], "params": vector.ctx["call"] });
    client.send(&call).await?;
    let heard = scene.heard(|message| message["method"] == again["method"]).await?;
    let key = again["params"]["inputResponses"].as_object().and_then(|all| all.keys().next()).ok_or("no responses")?;
    let question = json!({ "method": method, "params": implied_messages::question(vector, method, &vector.to) });
    heard.ask(&json!({ key: question }), &again["params"]["requestState"]);
    let asked = client.next().await?;
    if asked["method"] != *method {
        return Err(format!("the client is not asked: {asked}"));
    }
    given["id"] = asked["id"].clone();
    client.send(&given).await?;
    scene.gets(again).await.map(|_| ())
}

/// A client without a session returns with the answers and the sealed state; the server gets its own state.
pub(super) async fn comes_back(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let (mut given, again) = (vector.message(), expected(vector)?);
    let mut client = scene.client().await?;
    let mut first = given.clone();
    first["id"] = json!("first");
    for member in ["inputResponses", "requestState"] {
        first["params"].as_object_mut().map(|params| params.remove(member));
    }
    client.send(&first).await?;
    let heard = scene.heard(|message| message["method"] == given["method"]).await?;
    let responses = again["params"]["inputResponses"].as_object().into_iter().flatten();
    let by_url = scene.card.capabilities["elicitation"].get("url").is_some();
    let questions = responses.map(|(key, answer)| (key.clone(), implied_messages::asked(vector, answer, by_url)));
    heard.ask(&Value::Object(questions.collect()), &again["params"]["requestState"]);
    let (_, asked) = client.answer(&json!("first")).await?;
    let state = &asked["result"]["requestState"];
    if !state.is_string() || *state == again["params"]["requestState"] {
        return Err(format!("the state is not sealed: {asked}"));
    }
    given["params"]["requestState"] = state.clone();
    client.send(&given).await?;
    scene.gets(again).await.map(|_| ())
}
