//! The memory budget, as two users meet it: one leaves as much waiting as may be, the other calls.

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{Method, World, call, modern::Modern, reader::text};

const MIB: usize = 1 << 20;

fn large() -> Value {
    json!({ "say": "x".repeat(MIB) })
}

/// The messages of an answer, which is a stream if it takes long.
async fn messages(response: Response<Body>) -> Vec<Value> {
    let text = text(response).await;
    let parts: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let parts = if parts.is_empty() { vec![text.as_str()] } else { parts };
    let read = |part: &&str| serde_json::from_str(part).unwrap();
    parts
        .iter()
        .map(read)
        .flat_map(|message| match message {
            Value::Array(all) => all,
            one => vec![one],
        })
        .collect()
}

async fn answer(response: Response<Body>) -> Value {
    messages(response).await.pop().unwrap()
}

/// The length of the text of an answer that came whole.
fn said(answer: &Value) -> usize {
    answer["result"]["said"].as_str().map_or(0, str::len)
}

#[tokio::test]
async fn suspended_calls_of_one_user_make_room_for_those_of_another() {
    let world = World::new().await;
    world.budget.set(16 * MIB);
    let asked = r#"{"elicitation":{"form":{}}}"#;
    let suspended = async |user: &str, id: usize| {
        let told = answer(Modern::of(&world, user, asked).tool(id, "ask", large()).await).await;
        (told["result"]["resultType"] == "input_required").then(|| told["result"]["requestState"].clone())
    };
    let mut hostile = 0;
    for id in 0..30 {
        hostile += usize::from(suspended("hostile", id).await.is_some());
    }
    assert!((4..30).contains(&hostile), "a user above its share is refused at some point: {hostile}");
    // and another finds room for several, all of which go on
    let mut states = Vec::new();
    for id in 0..3 {
        states.push(suspended("ann", id).await.expect("within a share"));
    }
    for state in states {
        let retry = json!({
            "name": "ask", "arguments": large(), "requestState": state, "inputResponses": { "q1": { "action": "decline" } },
        });
        let told = answer(Modern::of(&world, "ann", asked).ask(9, "tools/call", retry).await).await;
        assert!(told["result"].is_object() && told["result"]["resultType"] != "input_required", "{told}");
    }
}

#[tokio::test]
async fn answers_that_wait_for_their_batch_leave_room_for_another_users() {
    let world = World::new().await;
    world.budget.set(16 * MIB);
    let mut hostile = world.client("hostile");
    hostile.open("2025-03-26", json!({})).await;
    let mut ann = world.client("ann");
    ann.open("2025-03-26", json!({})).await;
    // four answers wait for the fifth, in each of several batches
    let batch = |id: usize| {
        let mut all: Vec<Value> = (0..4).map(|number| call(10 * id + number, "echo", large())).collect();
        all.push(call(10 * id + 9, "hold", json!({})));
        Value::from(all)
    };
    let others = async {
        world.server.wait_for(Method::ToolsCall, 5).await;
        for id in 0..3 {
            assert_eq!(said(&answer(ann.send(call(id, "echo", large())).await).await), MIB);
        }
        let hers = json!([call(7, "echo", large()), call(8, "echo", large())]);
        assert_eq!(messages(ann.send(hers).await).await.iter().map(said).sum::<usize>(), 2 * MIB);
        world.server.gate.add_permits(3);
    };
    let batches = [hostile.send(batch(1)), hostile.send(batch(2)), hostile.send(batch(3))];
    let (_theirs, ()) = tokio::join!(futures_util::future::join_all(batches), others);
}
