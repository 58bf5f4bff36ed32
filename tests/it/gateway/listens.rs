//! `subscriptions/listen`: what many backends tell, as one.

use std::time::Duration;

use lockkeeper::{
    mcp::Method,
    model::{Access, Rights},
};

use super::script::{Backend, Client, background, gateway, heard, id, mount};

/// Lets everybody do what can be done without time passing.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_told_once_and_then_served() {
    let (one, two) = (Backend::with_tools(&["a"]), Backend::with_tools(&["b"]));
    let client = Client::new(gateway(vec![mount("b1", &one), mount("b2", &two)]).merged());
    assert_eq!(client.tools().await, "b1__a b2__b");
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    for (backend, tools) in [(&one, ["a", "a2"]), (&two, ["b", "b2"])] {
        backend.set_tools(&tools);
        for _ in 0..3 {
            backend.tell(None, Method::ToolsListChanged, "");
        }
    }
    let (told, rest) = listen.await.unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__a b1__a2 b2__b b2__b2");
    assert!(tokio::time::timeout(Duration::from_secs(5), heard(rest)).await.is_err());
    assert_eq!(one.asked("tools/list").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_the_same_as_before_is_not_told() {
    let backend = Backend::with_tools(&["a"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    client.tools().await;
    let listen = client.call(Method::Listen, "");
    let quiet = background(tokio::time::timeout(Duration::from_secs(5), heard(listen)));
    settle().await;
    backend.tell(None, Method::ToolsListChanged, "");
    assert!(quiet.await.unwrap().is_err());
    assert_eq!(backend.asked("tools/list").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_own_backend_session_changed_has_its_own_list() {
    let backend = Backend::with_tools(&["a"]);
    let gateway = gateway(vec![mount("b1", &backend)]);
    let client = Client::new(gateway.merged());
    assert_eq!(client.tools().await, "b1__a");
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    backend.set_tools(&["a", "unlocked"]);
    backend.tell(Some("session-1"), Method::ToolsListChanged, "");
    let (told, _rest) = listen.await.unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__a b1__unlocked");
    let mut other = client.clone();
    other.context.session = Some(lockkeeper::model::SessionId::new("session-2"));
    assert_eq!(other.tools().await, "b1__a");
    gateway.session_ended(client.context.session.as_ref().unwrap());
    assert_eq!(client.tools().await, "b1__a");
}

#[tokio::test(start_paused = true)]
async fn what_allowed_backends_tell_is_passed_on_in_the_gateways_names() {
    let (one, two) = (Backend::with_tools(&[]), Backend::with_tools(&[]));
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &two)]);
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    let merged = background(heard(Client::of(gateway.merged(), "bob", rights.clone()).call(Method::Listen, "")));
    let single = Client::of(gateway.single(&id("b1")).unwrap(), "bob", rights);
    let single = background(heard(single.call(Method::Listen, "")));
    settle().await;
    two.tell(Some("session-1"), Method::ResourceUpdated, r#"{"uri":"a:secret"}"#);
    one.tell(Some("session-1"), Method::ResourceUpdated, r#"{"uri":"a:b"}"#);
    assert_eq!(merged.await.unwrap().0, r#"notifications/resources/updated {"uri":"b1+a:b"}"#);
    assert_eq!(single.await.unwrap().0, r#"notifications/resources/updated {"uri":"a:b"}"#);
}

#[tokio::test(start_paused = true)]
async fn another_set_of_backends_is_told_and_heard() {
    let (one, two) = (Backend::with_tools(&["a"]), Backend::with_tools(&["b"]));
    let gateway = gateway(vec![mount("b1", &one)]);
    let client = Client::new(gateway.merged());
    client.tools().await;
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    gateway.replace(vec![mount("b2", &two)]);
    let (told, rest) = listen.await.unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b2__b");
    let (_, rest) = heard(rest).await;
    let (_, rest) = heard(rest).await;
    let told = background(heard(rest));
    settle().await;
    two.tell(Some("session-1"), Method::LoggingMessage, r#"{"level":"info","data":1}"#);
    assert_eq!(told.await.unwrap().0, r#"notifications/message {"level":"info","data":1,"logger":"b2"}"#);
}
