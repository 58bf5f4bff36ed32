//! `subscriptions/listen` with tasks: each backend gets its own, and the client gets the acknowledged ones.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lockkeeper::mcp::{Method, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::script::{Backend, Client, background, gateway, heard, id, mount};

/// A backend that acknowledges these tasks.
fn telling(tasks: &[&'static str]) -> Arc<Backend> {
    let backend = Backend::with_tools(&[]);
    *backend.tasks.lock() = Some(tasks.to_vec());
    backend
}

fn filter(ids: &[&str]) -> String {
    json!({ "notifications": { "taskIds": ids } }).to_string()
}

/// The tasks in clients' listens at a backend; the gateway's own listen has none.
fn asked(backend: &Backend) -> Vec<String> {
    backend.asked("subscriptions/listen").into_iter().filter(|params| !params.is_empty()).collect()
}

/// The tasks in the acknowledgement, in order.
async fn acknowledged(reply: Reply) -> (Vec<String>, Reply) {
    let (told, rest) = heard(reply).await;
    let params = told.strip_prefix("notifications/subscriptions/acknowledged ").expect("an acknowledgement");
    let params: Value = serde_json::from_str(params).unwrap();
    let mut ids: Vec<String> = serde_json::from_value(params["notifications"]["taskIds"].clone()).unwrap_or_default();
    ids.sort();
    (ids, rest)
}

#[tokio::test(start_paused = true)]
async fn every_backend_gets_its_own_tasks_and_the_acknowledgements_are_merged() {
    let (one, two) = (telling(&["T1", "T2"]), telling(&["T1", "a.b"]));
    let client = Client::new(gateway(vec![mount("b1", &one), mount("b2", &two)]).merged());
    let listen = client.call(Method::Listen, &filter(&["b1.T1", "b1.T9", "b2.a.b", "b3.T1", "T1"]));
    let (honoured, rest) = acknowledged(listen).await;
    assert_eq!(honoured, ["b1.T1", "b2.a.b"]);
    assert_eq!((asked(&one), asked(&two)), (vec![filter(&["T1", "T9"])], vec![filter(&["a.b"])]));
    let told = background(heard(rest));
    two.tell(
        Some("session-1"),
        Method::Tasks,
        r#"{"taskId":"a.b","status":"completed","result":{"content":[{"type":"resource_link","uri":"x:y"}]}}"#,
    );
    let (told, rest) = told.await.unwrap();
    assert_eq!(
        told,
        r#"notifications/tasks {"taskId":"b2.a.b","status":"completed","result":{"content":[{"type":"resource_link","uri":"b2+x:y"}]}}"#
    );
    one.tell(
        Some("session-1"),
        Method::Tasks,
        r#"{"taskId":"T1","status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Sure?"}}}}"#,
    );
    let (told, _rest) = heard(rest).await;
    assert_eq!(
        told,
        r#"notifications/tasks {"taskId":"b1.T1","status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Sure? (from b1)","_meta":{"lockkeeper/backend":"b1"}}}}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_backend_without_an_acknowledgement_is_not_awaited_for_long_and_notifications_wait() {
    let (one, two) = (telling(&["T1"]), telling(&[]));
    *two.tasks.lock() = None;
    let client = Client::new(gateway(vec![mount("b1", &one), mount("b2", &two)]).merged());
    let began = Instant::now();
    let listen = background(acknowledged(client.call(Method::Listen, &filter(&["b1.T1", "b2.T2"]))));
    while asked(&one).is_empty() || asked(&two).is_empty() {
        tokio::task::yield_now().await;
    }
    one.tell(Some("session-1"), Method::ResourceUpdated, r#"{"uri":"x:y"}"#);
    let (honoured, rest) = listen.await.unwrap();
    assert_eq!(honoured, ["b1.T1"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(heard(rest).await.0, r#"notifications/resources/updated {"uri":"b1+x:y"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_reopened_listen_names_its_tasks_again() {
    let backend = telling(&["T1"]);
    backend.deaf.store(true, Ordering::SeqCst);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    // a backend that rejects listens acknowledges nothing
    let (honoured, rest) = acknowledged(client.call(Method::Listen, &filter(&["b1.T1"]))).await;
    assert!(honoured.is_empty());
    let told = background(heard(rest));
    backend.deaf.store(false, Ordering::SeqCst);
    let tries = asked(&backend).len();
    while asked(&backend).len() == tries {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(asked(&backend).iter().all(|params| *params == filter(&["T1"])));
    // a later notification of it has no receiver
    backend.tell(Some("session-1"), Method::LoggingMessage, r#"{"level":"info","data":1}"#);
    assert_eq!(told.await.unwrap().0, r#"notifications/message {"level":"info","data":1,"logger":"b1"}"#);
}

#[tokio::test(start_paused = true)]
async fn at_the_endpoint_of_one_backend_ids_are_unchanged() {
    let backend = telling(&["b1.T1"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).single(&id("b1")).unwrap());
    let (honoured, rest) = acknowledged(client.call(Method::Listen, &filter(&["b1.T1", "T2"]))).await;
    assert_eq!(honoured, ["b1.T1"]);
    assert_eq!(asked(&backend), [filter(&["b1.T1", "T2"])]);
    backend.tell(Some("session-1"), Method::Tasks, r#"{"taskId":"b1.T1","status":"working"}"#);
    assert_eq!(heard(rest).await.0, r#"notifications/tasks {"taskId":"b1.T1","status":"working"}"#);
}

#[tokio::test(start_paused = true)]
async fn every_backend_gets_its_own_resources_and_they_are_acknowledged_under_the_clients_names() {
    let (one, two) = (telling(&[]), telling(&[]));
    for backend in [&one, &two] {
        *backend.about.lock() =
            r#"{"supportedVersions":["2025-11-25"],"capabilities":{"resources":{"subscribe":true}}}"#.to_owned();
    }
    let client = Client::new(gateway(vec![mount("b1", &one), mount("b2", &two)]).merged());
    let filter =
        |uris: &[&str]| json!({ "notifications": { "resourceSubscriptions": uris, "resourcesListChanged": true } });
    let chosen = filter(&["b1+x:y", "b1+no:z", "b2+a:b", "b3+a:b", "x:y"]).to_string();
    let (told, rest) = heard(client.call(Method::Listen, &chosen)).await;
    let params = told.strip_prefix("notifications/subscriptions/acknowledged ").expect("an acknowledgement");
    assert_eq!(serde_json::from_str::<Value>(params).unwrap(), filter(&["b1+x:y", "b2+a:b"]));
    let named = |backend: &Backend| {
        let asked = asked(backend).into_iter().map(|params| serde_json::from_str::<Value>(&params).unwrap());
        asked.map(|params| params["notifications"]["resourceSubscriptions"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((named(&one), named(&two)), (vec![json!(["no:z", "x:y"])], vec![json!(["a:b"])]));
    two.tell(Some("session-1"), Method::ResourceUpdated, r#"{"uri":"a:b"}"#);
    assert_eq!(heard(rest).await.0, r#"notifications/resources/updated {"uri":"b2+a:b"}"#);
}

#[tokio::test(start_paused = true)]
async fn an_update_has_the_name_by_which_the_client_asked_for_it() {
    let backend = telling(&[]);
    *backend.about.lock() =
        r#"{"supportedVersions":["2025-11-25"],"capabilities":{"resources":{"subscribe":true}}}"#.to_owned();
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    // a template that begins with an expression is shown as `b1+{+any}`, whatever is put into it
    let chosen = json!({ "notifications": { "resourceSubscriptions": ["b1+https://x/1"] } }).to_string();
    let (_, rest) = heard(client.call(Method::Listen, &chosen)).await;
    backend.tell(Some("session-1"), Method::ResourceUpdated, r#"{"uri":"https://x/1"}"#);
    assert_eq!(heard(rest).await.0, r#"notifications/resources/updated {"uri":"b1+https://x/1"}"#);
}
