//! Notifications outside of any call, if one side uses `subscriptions/listen` (2026-07-28).

use futures_util::{SinkExt as _, StreamExt as _};
use lockkeeper::{app::StdioApp, telemetry::Telemetry};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex},
    sync::oneshot,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message as Frame, client::IntoClientRequest as _},
};

use super::{
    client::Client,
    compare::{At, same},
    forwarding::expected,
    scene::Scene,
    servers::Heard,
    stage::Stage,
    tasks,
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
pub(super) async fn to_all(scene: &mut Scene<'_>, client: &mut Client) -> Result<Heard, String> {
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
    client.listen().await;
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

/// The gateway stops during a client's listen.
pub(super) async fn ends(scene: Scene<'_>, stage: Stage) -> Result<(), String> {
    let mut client = scene.client().await?;
    let steps: Vec<&Value> = scene.vector.steps("client", "out").map(|step| &step["msg"]).collect();
    let id = steps[0]["id"].as_str().ok_or("who listens?")?;
    listen(&mut client, id, &json!({ "toolsListChanged": true })).await?;
    let told = async {
        for step in steps {
            same(&client.next().await?, step, At::Client)?;
        }
        Ok(())
    };
    tokio::join!(told, stage.stop()).0
}

/// The gateway of a client on a channel stops during its listen.
pub(super) async fn ends_on_channels(scene: &Scene<'_>, stage: Stage) -> Result<(), String> {
    ends_on_pipes(scene, &stage).await?;
    ends_on_a_socket(scene, stage).await
}

/// The gateway of a client on pipes stops during its listen.
async fn ends_on_pipes(scene: &Scene<'_>, stage: &Stage) -> Result<(), String> {
    let app = StdioApp::build(&stage.config, None, Telemetry::detached().unwrap());
    let app = Box::pin(app).await.map_err(|error| error.to_string())?;
    let ((mut input, theirs), (ours, output)) = (duplex(1 << 16), duplex(1 << 16));
    let (stop, stopped) = oneshot::channel::<()>();
    let (asked, steps) = listen_that_ends(scene);
    let told = async {
        input.write_all(format!("{asked}\n").as_bytes()).await.unwrap();
        let mut lines = BufReader::new(output).lines();
        let mut next = async || {
            let line = lines.next_line().await.unwrap().ok_or("the output ended")?;
            Ok::<Value, String>(serde_json::from_str(&line).unwrap())
        };
        acknowledges(&next().await?, &asked)?;
        let _ = stop.send(());
        for step in steps {
            same(&next().await?, step, At::Client)?;
        }
        Ok(())
    };
    let serving = app.serve(theirs, ours, async { drop(stopped.await) });
    let (told, ()) = tokio::join!(told, serving);
    told.map_err(|fault: String| format!("on pipes: {fault}"))
}

/// The gateway of a client on WebSocket stops during its listen.
async fn ends_on_a_socket(scene: &Scene<'_>, stage: Stage) -> Result<(), String> {
    let authority = stage.gateway.url.trim_start_matches("http://");
    let mut request = format!("ws://{authority}/ws").into_client_request().unwrap();
    for (name, value) in
        [("authorization", format!("Bearer {}", stage.key)), ("sec-websocket-protocol", "mcp".to_owned())]
    {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let (mut socket, _) = connect_async(request).await.map_err(|error| error.to_string())?;
    let (asked, steps) = listen_that_ends(scene);
    socket.send(Frame::text(asked.to_string())).await.unwrap();
    let mut next = async || loop {
        match socket.next().await {
            Some(Ok(Frame::Text(text))) => return Ok(serde_json::from_str::<Value>(&text).unwrap()),
            Some(Ok(Frame::Ping(_))) => {}
            other => return Err(format!("the connection ended: {other:?}")),
        }
    };
    acknowledges(&next().await?, &asked)?;
    let told = async {
        for step in steps {
            same(&next().await?, step, At::Client)?;
        }
        Ok(())
    };
    tokio::join!(told, stage.stop()).0.map_err(|fault: String| format!("on WebSocket: {fault}"))
}

/// The listen of the vector, and the messages at its end.
fn listen_that_ends<'a>(scene: &Scene<'a>) -> (Value, Vec<&'a Value>) {
    let steps: Vec<&Value> = scene.vector.steps("client", "out").map(|step| &step["msg"]).collect();
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let asked = json!({ "jsonrpc": "2.0", "id": steps[0]["id"], "method": "subscriptions/listen", "params": params });
    (scene.card.enveloped(&asked), steps)
}

async fn listen(client: &mut Client, id: &str, filter: &Value) -> Result<(), String> {
    let params = json!({ "notifications": filter });
    client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params })).await?;
    acknowledges(&client.next().await?, &json!({ "id": id, "params": { "notifications": filter } }))
}

/// Checks the acknowledgement of a listen.
fn acknowledges(acknowledged: &Value, listen: &Value) -> Result<(), String> {
    let params = &acknowledged["params"];
    let fits = acknowledged["method"] == ACKNOWLEDGED
        && params["_meta"][SUBSCRIPTION] == listen["id"]
        && params["notifications"]["taskIds"] == listen["params"]["notifications"]["taskIds"];
    if fits { Ok(()) } else { Err(format!("the listen is not acknowledged: {acknowledged}")) }
}
