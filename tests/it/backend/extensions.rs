//! Extensions that the gateway knows nothing of, at servers on every transport: streams of events that belong to one request, and
//! a listen for what MCP does not define.

use std::sync::Arc;

use lockkeeper::{
    mcp::{Event, Method, Payload, Reply, Revision, listen},
    model::{BackendId, BackendSpec, Share},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::scripted_servers::{call, client, next, started};
use crate::kit::{
    answering::{Act, AnsweringServer},
    carriers::{Carrier, Hosted},
    peer::greeting,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const VERSIONS: [Revision; 2] = [Revision::V2025_06_18, Revision::V2026_07_28];

/// A server of events. At each stream that is opened it writes an event for each that is open.
fn server_of_events(carrier: Carrier, version: Revision) -> Hosted {
    let open: Mutex<Vec<Value>> = Mutex::default();
    let server = AnsweringServer::acting(version, move |message| {
        let id = &message["id"];
        let answer = |result: &Value| vec![Act::Say(json!({ "id": id, "result": result }))];
        let event = |method: &str, id: &Value, mut params: Value| {
            params["_meta"] = json!({ SUBSCRIPTION: id });
            Act::Say(json!({ "method": method, "params": params }))
        };
        match message["method"].as_str().unwrap_or_default() {
            "initialize" if version == VERSIONS[0] => answer(&greeting(version.as_str())),
            "server/discover" if version == VERSIONS[1] => answer(&json!({
                "resultType": "complete", "supportedVersions": [version.as_str()],
                "capabilities": { "tools": {}, "extensions": { "io.modelcontextprotocol/events": {} } },
                "ttlMs": 0, "cacheScope": "private",
            })),
            "events/stream" => {
                open.lock().push(id.clone());
                let open = open.lock();
                // over HTTP, each on its own stream
                let told = open.iter().filter(|other| carrier != Carrier::Http || *other == id);
                told.map(|id| event("notifications/events/event", id, json!({ "of": id }))).collect()
            }
            "subscriptions/listen" => vec![
                event(
                    "notifications/subscriptions/acknowledged",
                    id,
                    json!({ "notifications": message["params"]["notifications"] }),
                ),
                event("notifications/events/list_changed", id, json!({})),
            ],
            _ if id.is_null() => Vec::new(),
            _ => vec![Act::Say(json!({ "id": id, "error": { "code": -32601, "message": "no" } }))],
        }
    });
    Hosted::start(carrier, Arc::new(server))
}

fn spec(hosted: &Hosted) -> BackendSpec {
    BackendSpec { share: Share::All, ..BackendSpec::new(BackendId::parse("events").unwrap(), hosted.transport()) }
}

async fn notified(reply: &mut Reply) -> (String, Value) {
    match next(reply).await {
        Event::Notified(told) => (told.method.to_string(), told.params.view().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_event_belongs_to_the_request_that_it_names_though_all_share_the_connection() {
    for version in VERSIONS {
        for carrier in [Carrier::Http, Carrier::WebSocket, Carrier::Unix] {
            let hosted = server_of_events(carrier, version);
            let (_supervisor, server) = started(spec(&hosted)).await;
            let open = |session: &str| call(&server, client(session, "{}"), Method::parse("events/stream"), &json!({}));
            let (mut one, mut two) = (open("one"), open("two"));
            let (method, first) = notified(&mut one).await;
            assert_eq!(method, "notifications/events/event");
            let (_, second) = notified(&mut two).await;
            assert_ne!(first["of"], second["of"], "{carrier:?}");
            assert_eq!(second["_meta"][SUBSCRIPTION], second["of"], "{carrier:?}");
            if carrier != Carrier::Http {
                assert_eq!(notified(&mut one).await.1["of"], first["of"], "{carrier:?} {version}");
            }
        }
    }
}

#[tokio::test]
async fn a_listen_for_what_mcp_does_not_define_is_a_request_of_its_own() {
    for carrier in [Carrier::Http, Carrier::WebSocket, Carrier::Unix] {
        let hosted = server_of_events(carrier, VERSIONS[1]);
        let (_supervisor, server) = started(spec(&hosted)).await;
        let others = [("eventsListChanged".to_owned(), json!(true))].into();
        let (method, params) = listen::for_others(&others);
        let params: Value = Payload::view(&params).unwrap();
        let mut heard = call(&server, client("one", "{}"), method, &params);
        let (method, params) = notified(&mut heard).await;
        assert_eq!(method, "notifications/subscriptions/acknowledged");
        assert_eq!(params["notifications"], json!({ "eventsListChanged": true }), "{carrier:?}");
        assert_eq!(notified(&mut heard).await.0, "notifications/events/list_changed", "{carrier:?}");
    }
}
