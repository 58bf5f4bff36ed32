//! Forwarding from a client to a server and back.

use serde_json::{Value, json};

use super::{
    compare::{At, as_minted, same, same_headers},
    implied_messages,
    plan::MODERN,
    rounds,
    scene::Scene,
    tasks,
    vector::Vector,
};
use crate::kit::{
    player::{Arrived, PlayerConnection},
    prescribed::Heard,
};

/// Methods of notifications that belong to no call.
const ASIDE: [&str; 5] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tasks",
];

/// A message from the client.
pub(super) async fn to_server(mut scene: Scene<'_>) -> Result<(), String> {
    let given = scene.vector.given();
    let mut client = scene.client().await?;
    if let Some(level) = scene.vector.ctx.get("log_level") {
        let set = json!({ "jsonrpc": "2.0", "id": "set", "method": "logging/setLevel", "params": { "level": level } });
        client.send(&set).await?;
        client.answer(&json!("set")).await?;
    }
    if tasks::concerns_one(&scene) {
        tasks::make(&mut scene, &mut client).await?;
    }
    match (given["method"].as_str(), given.get("id")) {
        (Some(method), Some(id)) if expected(scene.vector)?.get("method").is_none() => {
            client.send(&given).await?;
            let (_, answer) = client.answer(id).await.map_err(|fault| format!("{method}: {fault}"))?;
            same(&answer, expected(scene.vector)?, At::Client)
        }
        (Some(_), Some(id)) => {
            client.send(&given).await?;
            arrives(&mut scene).await?;
            twin(&mut client, &given, id).await
        }
        (Some(_), None) => told(&mut scene, &mut client, given).await,
        (None, _) if scene.vector.to == MODERN => rounds::answered(&mut scene, &mut client, given).await,
        (None, _) => answered(&mut scene, &mut client, given).await,
    }
}

/// A request arrives, with its headers.
async fn arrives(scene: &mut Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let expected = expected(vector)?;
    let Some(headers) = scene.gets(expected).await?.headers else { return Ok(()) };
    let (version, opens) = (vector.to.as_str(), expected["method"] == "initialize");
    for (name, due) in [("mcp-protocol-version", version >= "2025-06-18" && !opens), ("mcp-method", version == MODERN)]
    {
        if headers.contains_key(name) != due {
            return Err(format!("the header {name} is {:?}", headers.get(name)));
        }
    }
    same_headers(&headers, &vector.expect["http"]["headers"])
}

/// An id in quotes and the same number are two ids: both may be in use, and each answer has the id as the client wrote
/// it.
async fn twin(client: &mut PlayerConnection, given: &Value, id: &Value) -> Result<(), String> {
    let Some(number) = id.as_str().and_then(|id| id.parse::<u64>().ok()) else { return Ok(()) };
    let mut other = given.clone();
    other["id"] = number.into();
    client.send(&other).await?;
    let mut due = vec![id.clone(), other["id"].clone()];
    while !due.is_empty() {
        let message = client.next().await?;
        due.iter().position(|id| *id == message["id"]).map(|at| due.remove(at)).ok_or_else(|| message.to_string())?;
    }
    Ok(())
}

/// A client's notification arrives; if it is dropped, the next call arrives and nothing before it.
async fn told(scene: &mut Scene<'_>, client: &mut PlayerConnection, mut given: Value) -> Result<(), String> {
    let mut expected = expected(scene.vector)?.clone();
    let id = given["params"].get("requestId").cloned().unwrap_or_else(|| json!("call"));
    // open to the end: the notification may be about it
    let call = scene.call(client, &id).await?;
    match given["method"].as_str() {
        Some("notifications/cancelled") => expected["params"]["requestId"] = call.message["id"].clone(),
        Some("notifications/progress") if scene.vector.to != MODERN => {
            let params = json!({ "_meta": { "progressToken": given["params"]["progressToken"] } });
            let asked = ask(scene, client, &call, "roots/list", params).await?;
            given["params"]["progressToken"] = asked["params"]["_meta"]["progressToken"].clone();
        }
        _ => {}
    }
    client.send(&given).await?;
    let method = given["method"].clone();
    if expected.get("drop").is_none() {
        return scene.gets(&expected).await.map(|_| ());
    }
    let after = json!({ "jsonrpc": "2.0", "id": "after", "method": "tools/call", "params": { "name": "after" } });
    client.send(&after).await?;
    let heard = scene.heard(|message| message["method"] == method || message["params"]["name"] == "after").await?;
    if heard.message["method"] == method { Err(format!("the server gets {}", heard.message)) } else { Ok(()) }
}

/// A client's answer arrives under the id of the server request.
async fn answered(scene: &mut Scene<'_>, client: &mut PlayerConnection, mut given: Value) -> Result<(), String> {
    let vector = scene.vector;
    let method = vector.answered().ok_or("what is answered?")?;
    let call = scene.call(client, &json!("call")).await?;
    let params = implied_messages::question(vector, method, &vector.to);
    let id = expected(vector)?["id"].clone();
    given["id"] = ask(scene, client, &call, method, params).await?["id"].clone();
    client.send(&given).await?;
    let heard = scene.heard(|message| message.get("method").is_none() && message["id"] == id).await?;
    same(&heard.message, expected(vector)?, At::Server)
}

/// The server sends a request in a call, and the client gets it.
async fn ask(
    scene: &Scene<'_>,
    client: &mut PlayerConnection,
    call: &Heard,
    method: &str,
    params: Value,
) -> Result<Value, String> {
    let id = expected(scene.vector)?.get("id").cloned().unwrap_or_else(|| json!("s1"));
    call.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    loop {
        let message = client.next().await?;
        if message["method"] == method {
            return Ok(message);
        }
    }
}

/// A message from the server.
pub(super) async fn to_client(mut scene: Scene<'_>) -> Result<(), String> {
    let given = scene.vector.message();
    match (given["method"].as_str(), given.get("id")) {
        _ if given.is_array() => several(&mut scene, given).await,
        _ if given.get("parts").is_some() => answer(scene).await,
        (None, Some(_)) if given["result"]["resultType"] == "input_required" => rounds::asks(&mut scene).await,
        (None, Some(_)) => answer(scene).await,
        (Some(method), None) if ASIDE.contains(&method) => aside(&mut scene, &given).await,
        (_, None) => on_call(&mut scene, given).await,
        (Some(_), Some(_)) => question(&mut scene, &given).await,
    }
}

/// The server's answer to a request.
async fn answer(mut scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let mut method = vector.answered().unwrap_or(implied_messages::METHOD);
    if method == "initialize" && vector.to == MODERN {
        method = "server/discover";
    } else if method == "initialize" {
        let (_, greeting) = PlayerConnection::open(scene.card.clone()).await?;
        let greeting = greeting.map(Arrived::into_message).ok_or("there is no handshake")??;
        return same(&greeting, expected(vector)?, At::Client);
    }
    let mut client = scene.client().await?;
    if vector.ctx["advertised_output_schema_wrapped"] == true {
        client.send(&json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" })).await?;
        client.answer(&json!("list")).await?;
    }
    if tasks::concerns_one(&scene) {
        tasks::make(&mut scene, &mut client).await?;
    }
    let id = expected(vector)?.get("id").cloned().unwrap_or_else(|| json!(1));
    client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": scene.request(method) })).await?;
    let (_, answer) = client.answer(&id).await?;
    same(&answer, expected(vector)?, At::Client)
}

/// A notification outside of any call comes on the standalone stream.
async fn aside(scene: &mut Scene<'_>, given: &Value) -> Result<(), String> {
    let mut client = scene.client().await?;
    client.listen().await?;
    if let Some(uri) = given["params"]["uri"].as_str() {
        let params = json!({ "uri": uri });
        client
            .send(&json!({ "jsonrpc": "2.0", "id": "sub", "method": "resources/subscribe", "params": params }))
            .await?;
        client.answer(&json!("sub")).await?;
    }
    let call = if tasks::tells_of_one(scene) {
        let call = tasks::make(scene, &mut client).await?;
        scene.heard(|message| message["params"]["notifications"]["taskIds"].is_array()).await?;
        call
    } else {
        if scene.vector.from == MODERN {
            scene.heard(|message| message["method"] == "subscriptions/listen").await?;
        }
        let call = scene.call(&mut client, &json!("call")).await?;
        call.finish();
        client.answer(&json!("call")).await?;
        call
    };
    let after =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": "after" } });
    call.say_aside(given);
    call.say_aside(&after);
    reaches(&mut client, expected(scene.vector)?, |message| message["params"]["data"] == "after").await
}

/// A notification or an error without id in a call, then the answer. On stdio only the time shows where most
/// notifications belong, so they come on the standalone stream.
async fn on_call(scene: &mut Scene<'_>, mut given: Value) -> Result<(), String> {
    let mut client = scene.client().await?;
    client.listen().await?;
    let expected = expected(scene.vector)?;
    let token = expected["params"].get("progressToken").cloned().unwrap_or_else(|| json!("token"));
    let mut meta = json!({ "progressToken": token });
    let mut id = json!("call");
    for (call, level) in scene.vector.ctx["in_flight_log_levels"].as_object().into_iter().flatten() {
        id = call.parse::<u64>().map_or_else(|_| json!(call), Value::from);
        meta["io.modelcontextprotocol/logLevel"] = level.clone();
    }
    let call = scene.call_with(&mut client, &id, &meta).await?;
    as_of(&mut given, &call);
    call.say(&given);
    call.finish();
    // an error without id on the exchange of a call may fail the call, as an error between gateway and server
    let is_last = |message: &Value| message["error"]["code"].as_i64().is_none_or(|code| code == -32603);
    reaches(&mut client, expected, |message| message["id"] == id && is_last(message)).await
}

/// A batch of the server in a call, with its answer: split, in order.
async fn several(scene: &mut Scene<'_>, mut given: Value) -> Result<(), String> {
    let mut client = scene.client().await?;
    let token = scene.vector.ctx["tokens"].as_object().and_then(|tokens| tokens.values().next());
    let id = scene.vector.ctx["map"].as_object().and_then(|ids| ids.values().next()).ok_or("whose answer?")?;
    let meta = token.map_or(Value::Null, |token| json!({ "progressToken": token }));
    let call = scene.call_with(&mut client, id, &meta).await?;
    given.as_array_mut().into_iter().flatten().for_each(|message| as_of(message, &call));
    call.say(&given);
    for step in scene.vector.steps("client", "out") {
        let message = client.next().await?;
        same(&message, &step["msg"], At::Client)?;
    }
    Ok(())
}

/// A server request reaches the client, or is refused.
async fn question(scene: &mut Scene<'_>, given: &Value) -> Result<(), String> {
    let mut client = scene.client().await?;
    let expected = expected(scene.vector)?;
    // a client without a session gets it in the answer to its call
    let asked = scene.vector.to == MODERN && expected.get("result").is_some();
    let id = if asked { expected["id"].clone() } else { json!("call") };
    let call = scene.call(&mut client, &id).await?;
    call.say(given);
    if asked {
        let (_, answer) = client.answer(&id).await?;
        return same(&as_minted(&answer, expected), expected, At::Client);
    }
    if expected.get("method").is_none() {
        let heard = scene.heard(|message| message.get("method").is_none() && message["id"] == given["id"]).await?;
        return same(&heard.message, expected, At::Server);
    }
    same(&client.next().await?, expected, At::Client)
}

/// The client gets the expected message, or if there is none, the `last` one and nothing before it. Messages outside of
/// exchanges have no order relative to others.
async fn reaches(client: &mut PlayerConnection, expected: &Value, last: impl Fn(&Value) -> bool) -> Result<(), String> {
    loop {
        let message = client.next().await?;
        match (last(&message), expected.get("drop").is_some()) {
            (true, true) => return Ok(()),
            (true, false) => {}
            (false, true) => return Err(format!("the client gets {message}")),
            (false, false) => return same(&message, expected, At::Client),
        }
    }
}

/// Inserts the gateway's ids and tokens into a message of the server.
fn as_of(message: &mut Value, call: &Heard) {
    if message["params"].get("progressToken").is_some() {
        message["params"]["progressToken"] = call.message["params"]["_meta"]["progressToken"].clone();
    }
    if message.get("method").is_none() && message.get("id").is_some() {
        message["id"] = call.message["id"].clone();
    }
}

pub(super) fn expected(vector: &Vector) -> Result<&Value, String> {
    let last = vector.steps("client", "out").last();
    vector.expected().or_else(|| last?.get("msg")).ok_or_else(|| "expects no message".to_owned())
}
