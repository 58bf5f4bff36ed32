//! Answers of the gateway itself to a client.

use reqwest::Response;
use serde_json::Value;

use super::{
    compare::{At, same},
    scene::Scene,
};
use crate::kit::{
    player::PlayerConnection,
    tap::{Event, Tap},
};

/// The client's message, and the gateway's answer.
pub(super) async fn answers(scene: Scene<'_>) -> Result<(), String> {
    let vector = scene.vector;
    let given = vector.given();
    let http = &given["http"];
    let body = given.get("body").unwrap_or(&given);
    if http.is_object() {
        let needs_session = headers(http, Some("")).iter().any(|(_, value)| value.is_empty());
        let client = if needs_session { scene.client().await? } else { PlayerConnection::new(scene.card.clone()) };
        let verb = http["method"].as_str().unwrap_or("POST");
        let path = http["path"].as_str().map_or_else(|| format!("/mcp{}", scene.card.door.path), str::to_owned);
        let body = if verb == "POST" { body } else { &Value::Null };
        let response = client.bare((verb, &path), body, &headers(http, client.session.as_deref())).await;
        return match vector.expect.get("sse") {
            Some(events) => same_event(&mut Tap::of(response), events).await,
            None => same_response(response, &vector.expect).await,
        };
    }
    let opens = |message: &Value| message["method"] == "initialize";
    if opens(body) || body.as_array().is_some_and(|messages| messages.iter().any(opens)) {
        let client = PlayerConnection::new(scene.card.clone());
        return same_response(client.exchange(body).await, &vector.expect).await;
    }
    let mut client = scene.client().await?;
    if vector.expect.get("http").is_some() {
        return same_response(client.exchange(body).await, &vector.expect).await;
    }
    client.send(body).await?;
    let (_, answer) = client.answer(&body["id"]).await?;
    same(&answer, &vector.expect, At::Client)
}

/// The beginning of a stream.
pub(super) async fn opens_a_stream(scene: Scene<'_>) -> Result<(), String> {
    let client = scene.client().await?;
    let response = client.get(&format!("/mcp{}", scene.card.door.path)).await;
    same_event(&mut Tap::of(response), &scene.vector.expect["sse"]).await
}

/// The headers of a vector, with `session` for the id of an existing session.
fn headers(http: &Value, session: Option<&str>) -> Vec<(String, String)> {
    let named = http["headers"].as_object().into_iter().flatten();
    named
        .map(|(name, value)| {
            let value = value.as_str().unwrap_or_default();
            let stands_for_it = name.eq_ignore_ascii_case("mcp-session-id") && value.starts_with('S');
            (name.clone(), session.filter(|_| stands_for_it).unwrap_or(value).to_owned())
        })
        .collect()
}

/// Compares status and body, if the vector has them. If it shows no id, a readable one is accepted as well.
async fn same_response(response: Response, expected: &Value) -> Result<(), String> {
    let status = response.status().as_u16();
    if expected["http"]["status"].as_u64().is_some_and(|expected| expected != u64::from(status)) {
        return Err(format!("the status is {status}: {}", response.text().await.unwrap()));
    }
    let Some(body) = expected.get("body").or_else(|| expected.get("jsonrpc").map(|_| expected)) else { return Ok(()) };
    let mut tap = Tap::of(response);
    // a slow answer becomes a stream, which may begin with an event that has only an id
    let data = loop {
        let event = tap.next().await.ok_or("no body")?;
        if let Some(data) = event.data.filter(|data| !data.is_empty()) {
            break data;
        }
    };
    let got: Value = serde_json::from_str(&data).unwrap();
    let id = |message: &Value| message.get("id").filter(|id| !id.is_null()).cloned();
    if id(body).is_some() && id(&got) != id(body) {
        return Err(format!("the id is not as expected: {got}"));
    }
    same(&got, body, At::Client)
}

/// Compares the first event by field; ids, and the part after a `?`, belong to the gateway.
async fn same_event(tap: &mut Tap, expected: &Value) -> Result<(), String> {
    let expected = Event::read(expected[0].as_str().ok_or("expects no event")?.trim_end_matches('\n'));
    let got = tap.next().await.ok_or("no event came")?;
    let open = |event: &Event| Event {
        id: event.id.as_ref().map(|id| (!id.is_empty()).to_string()),
        data: event.data.as_ref().map(|data| data.split_inclusive('?').next().unwrap_or_default().to_owned()),
        ..event.clone()
    };
    if open(&got) == open(&expected) { Ok(()) } else { Err(format!("\n  got      {got:?}\n  expected {expected:?}")) }
}
