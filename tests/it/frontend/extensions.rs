//! Extensions that the gateway knows nothing of: the ids of their subscriptions, and their part of a listen.

use futures_util::{StreamExt as _, stream};
use lockkeeper::mcp::{Event, Method, Notification, Outcome, Payload, Reply, Revision};
use serde_json::{Value, json};

use super::{Client, Events, Reader, World, body, broken_streams::told, modern::Modern};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A stream of events, as its server writes it: it knows the request as number 17.
fn stream_of_events(revision: Revision) -> Reply {
    let told = |method: &str, params: &Value| {
        let params = Payload::of(revision, params);
        Event::Notified(Notification { method: Method::parse(method), params })
    };
    let meta = || json!({ SUBSCRIPTION: 17, "x/y": 1 });
    let active = told("notifications/events/active", &json!({ "cursor": null, "_meta": meta() }));
    let log = told("notifications/message", &json!({ "level": "error", "data": 1, "_meta": meta() }));
    let result = Payload::of(revision, &json!({ "_meta": meta() }));
    Reply::new(stream::iter([active, log, Event::Done(Outcome::Complete(result))]))
}

#[tokio::test]
async fn a_client_without_a_session_gets_its_own_id_as_that_of_its_subscription() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    for id in [json!(3), json!("a \u{e9}")] {
        world.server.plays.lock().push_back(stream_of_events(Revision::V2026_07_28));
        let params = json!({ "name": "x", "_meta": { "io.modelcontextprotocol/logLevel": "debug" } });
        let mut events = Events::of(client.ask(id.clone(), "events/stream", params).await);
        for _ in 0..2 {
            let told = events.message().await.unwrap();
            assert_eq!(
                (&told["params"]["_meta"][SUBSCRIPTION], &told["params"]["_meta"]["x/y"]),
                (&id, &json!(1)),
                "{told}"
            );
        }
        let answer = events.message().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["_meta"][SUBSCRIPTION]), (&id, &id), "{answer}");
    }
}

#[tokio::test]
async fn a_client_with_a_session_gets_its_own_id_too() {
    let world = World::new().await;
    // the schema of its version has no such messages
    let client = Client { reader: Reader::default(), ..world.ready("ann", "2025-11-25").await };
    for id in [json!(3), json!("a")] {
        world.server.plays.lock().push_back(stream_of_events(Revision::V2025_11_25));
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "events/stream", "params": {} });
        let mut events = Events::of(client.send(request).await);
        for _ in 0..2 {
            assert_eq!(events.message().await.unwrap()["params"]["_meta"][SUBSCRIPTION], id);
        }
        assert_eq!(events.message().await.unwrap()["result"]["_meta"][SUBSCRIPTION], id);
    }
}

#[tokio::test]
async fn what_names_no_subscription_is_not_given_one() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let event = told(Method::parse("notifications/x"), &json!({ "_meta": { "x/y": 1 } }));
    let result = Payload::of(Revision::V2025_11_25, &json!({ "x": 1 }));
    let said = stream::iter([event, Event::Done(Outcome::Complete(result))]);
    world.server.plays.lock().push_back(Reply::new(said.chain(stream::pending())));
    let mut events = Events::of(client.ask(1, "x/do", json!({})).await);
    assert_eq!(events.message().await.unwrap()["params"], json!({ "_meta": { "x/y": 1 } }));
    assert!(events.message().await.unwrap()["result"]["_meta"].get(SUBSCRIPTION).is_none());
}

#[tokio::test]
async fn members_of_a_filter_that_mcp_does_not_define_pass_and_bring_their_notifications() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let filter = json!({ "toolsListChanged": true, "eventsListChanged": true, "methods": ["x"], "others": { "a": 1 } });
    let mut events = Events::of(client.ask("l", "subscriptions/listen", json!({ "notifications": filter })).await);
    assert_eq!(events.message().await.unwrap()["params"]["notifications"], filter);
    let told = (Method::parse("notifications/events/list_changed"), json!({ "_meta": { SUBSCRIPTION: 17 } }));
    world.server.told.send(told.clone()).unwrap();
    let heard = events.message().await.unwrap();
    assert_eq!(
        (&heard["method"], &heard["params"]["_meta"][SUBSCRIPTION]),
        (&json!("notifications/events/list_changed"), &json!("l"))
    );
    // a client that did not ask for them hears nothing of them
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut other = Events::of(client.ask("m", "subscriptions/listen", filter).await);
    other.message().await.unwrap();
    world.server.told.send(told).unwrap();
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    assert_eq!(other.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn the_members_of_a_filter_that_mcp_does_not_define_are_bounded() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let listen = async |filter: Value| client.ask(1, "subscriptions/listen", json!({ "notifications": filter })).await;
    let many = |count: usize| Value::Object((0..count).map(|number| (format!("x/{number}"), json!(true))).collect());
    for filter in [many(17), json!({ "x/long": "x".repeat(8 * 1024) })] {
        let error = body(listen(filter).await).await["error"].clone();
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains("at most 16 members"), "{error}");
    }
    for filter in [many(16), json!({ "x/long": "x".repeat(8 * 1000) })] {
        Events::of(listen(filter).await);
    }
}
