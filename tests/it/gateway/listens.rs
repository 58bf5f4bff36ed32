//! `subscriptions/listen`: notifications of many backends in one stream.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    mcp::Method,
    model::{Access, BackendSpec, Groups, RequestNumber, Requester, Rights, SessionId, Share},
};

use super::script::{Backend, Client, background, gateway, heard, id, mount, mount_as, spec};

/// Lets all tasks run until they wait for time to pass.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_reported_once_and_then_served() {
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
async fn a_server_that_reports_changes_all_the_time_is_listed_anew_and_its_clients_are_told() {
    let backend = Backend::with_tools(&["a"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    assert_eq!(client.tools().await, "b1__a");
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    let stormy = Arc::clone(&backend);
    let storm = background(async move {
        loop {
            stormy.tell(None, Method::ToolsListChanged, "");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    for tools in [["a", "b"].as_slice(), &["a", "b", "c"]] {
        backend.set_tools(tools);
        let shown = tools.iter().map(|tool| format!("b1__{tool}")).collect::<Vec<_>>().join(" ");
        let served = async {
            while client.tools().await != shown {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(2), served).await.is_ok(), "{shown}");
    }
    let (told, _) = tokio::time::timeout(Duration::from_secs(1), listen).await.unwrap().unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    storm.abort();
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_list_is_not_reported() {
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
async fn a_session_with_a_changed_backend_session_has_its_own_list() {
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
    other.context.requester = Requester::Session(SessionId::new("session-2"));
    assert_eq!(other.tools().await, "b1__a");
    gateway.session_ended(client.context.requester.session().unwrap());
    assert_eq!(client.tools().await, "b1__a");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_gateway_hears_before_the_session_is_reported_once() {
    let backend = Backend::with_tools(&["a"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    assert_eq!(client.tools().await, "b1__a");
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    backend.set_tools(&["a", "unlocked"]);
    backend.tell(None, Method::ToolsListChanged, "");
    tokio::time::sleep(Duration::from_millis(500)).await;
    backend.tell(Some("session-1"), Method::ToolsListChanged, "");
    let (told, rest) = listen.await.unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__a b1__unlocked");
    assert!(tokio::time::timeout(Duration::from_secs(5), heard(rest)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_hears_again_of_a_list_that_is_another_than_the_one_it_heard_of() {
    let backend = Backend::with_tools(&["a"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    assert_eq!(client.tools().await, "b1__a");
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    backend.set_tools(&["a", "for_all"]);
    backend.tell(None, Method::ToolsListChanged, "");
    let began = tokio::time::Instant::now();
    let (told, rest) = listen.await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(500), "it waits for no other report");
    assert_eq!(told, "notifications/tools/list_changed");
    let listen = background(heard(rest));
    backend.set_tools(&["a", "for_one"]);
    backend.tell(Some("session-1"), Method::ToolsListChanged, "");
    let (told, rest) = listen.await.unwrap();
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__a b1__for_one");
    assert!(tokio::time::timeout(Duration::from_secs(5), heard(rest)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_notified_client_gets_the_new_list_even_from_a_slow_server() {
    let session = Requester::Session(SessionId::new("session-1"));
    for requester in [session, Requester::Request(RequestNumber::new(1))] {
        let backend = Backend::with_tools(&["a"]);
        let gateway = gateway(vec![mount("b1", &backend)]);
        let mut client = Client::new(gateway.single(&id("b1")).unwrap());
        client.context.requester = requester;
        assert_eq!(client.tools().await, "a");
        let listen = background(heard(client.call(Method::Listen, "")));
        settle().await;
        backend.awake.send_replace(false);
        backend.set_tools(&["a", "unlocked"]);
        backend.tell(client.context.requester.session().map(SessionId::as_str), Method::ToolsListChanged, "");
        listen.await.unwrap();
        let list = background({
            let client = client.clone();
            async move { client.tools().await }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        backend.awake.send_replace(true);
        assert_eq!(list.await.unwrap(), "a unlocked", "{:?}", client.context.requester);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_list_changes_for_all_clients() {
    let backend = Backend::with_tools(&["a"]);
    let shared = mount_as(&BackendSpec { share: Share::All, ..spec("b1") }, &backend);
    let client = Client::new(gateway(vec![shared]).merged()).able(r#"{"roots":{}}"#);
    let mut other = client.clone();
    other.context.requester = Requester::Session(SessionId::new("session-2"));
    assert_eq!(client.tools().await, "b1__a");
    let listens = [&client, &other].map(|client| background(heard(client.call(Method::Listen, ""))));
    settle().await;
    backend.set_tools(&["a2"]);
    backend.tell(Some("session-2"), Method::ToolsListChanged, "");
    for listen in listens {
        assert_eq!(listen.await.unwrap().0, "notifications/tools/list_changed");
    }
    assert_eq!((client.tools().await, other.tools().await), ("b1__a2".to_owned(), "b1__a2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_backend_session_is_reported_once_for_each_list() {
    let backend = Backend::with_tools(&["a"]);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    client.tools().await;
    let first = background(heard(client.call(Method::Listen, "")));
    settle().await;
    let methods = [Method::ToolsListChanged, Method::PromptsListChanged, Method::ResourcesListChanged];
    for method in methods.iter().chain(&methods) {
        backend.tell(Some("session-1"), method.clone(), "");
    }
    let (told, mut rest) = first.await.unwrap();
    let mut all = vec![told];
    for _ in 0..2 {
        let (told, after) = heard(rest).await;
        all.push(told);
        rest = after;
    }
    assert_eq!(all, methods.map(|method| method.to_string()));
    assert!(tokio::time::timeout(Duration::from_secs(5), heard(rest)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_listen_that_a_backend_ends_is_reopened_with_delays() {
    let backend = Backend::with_tools(&["a"]);
    backend.deaf.store(true, std::sync::atomic::Ordering::SeqCst);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    let listen = client.call(Method::Listen, "");
    assert!(tokio::time::timeout(Duration::from_mins(5), heard(listen)).await.is_err());
    // two listens, each after 1 (or 2), 2, 4 … 60 s
    let tries = backend.asked("subscriptions/listen").len();
    assert!((10..=24).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn notifications_of_allowed_backends_have_the_gateways_names() {
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
async fn a_changed_set_of_backends_is_reported_and_listened_to() {
    let (one, two) = (Backend::with_tools(&["a"]), Backend::with_tools(&["b"]));
    let gateway = gateway(vec![mount("b1", &one)]);
    let client = Client::new(gateway.merged());
    client.tools().await;
    let listen = background(heard(client.call(Method::Listen, "")));
    settle().await;
    gateway.replace(vec![mount("b2", &two)], &Groups::default());
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
