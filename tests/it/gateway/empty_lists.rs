//! The reason that the status has for a server that is ready and lists no tools.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    gateway::{ConfiguredBackend, Gateway},
    mcp::{ErrorObject, Method, Revision},
    model::{BackendSpec, NameGlobs, ToolRules, status::EmptyList},
};

use super::script::{Backend, Client, about, background, gateway, id, mount, mount_as, spec};

/// The reason of the only server, once it was asked for its lists.
async fn reason(server: ConfiguredBackend) -> Option<EmptyList> {
    let gateway = gateway(vec![server]);
    listed(&gateway).await;
    gateway.no_tools(&id("b1"))
}

async fn listed(gateway: &Arc<Gateway>) {
    let _ = Client::new(gateway.merged()).ask(Method::ToolsList, "").await;
}

fn listing(page: &str) -> ConfiguredBackend {
    mount("b1", &Backend::speaking(Revision::V2025_11_25, page))
}

#[tokio::test]
async fn a_server_that_lists_no_tools_has_the_reason_in_its_status() {
    assert_eq!(reason(listing(r#"{"tools":[{"name":"look"}]}"#)).await, None);
    assert_eq!(reason(listing(r#"{"tools":[]}"#)).await, Some(EmptyList::Nothing));
    for page in [r#"{"tools":"none"}"#, r#"{"tools":{}}"#, "{}", r#"{"prompts":[]}"#] {
        assert_eq!(reason(listing(page)).await, Some(EmptyList::Malformed), "{page}");
    }
    let broken = r#"{"tools":[{"name":"broken","inputSchema":{"type":"string"}},{"description":"no name"}]}"#;
    assert_eq!(reason(listing(broken)).await, Some(EmptyList::LeftOut { entries: 2 }));

    let prompts_alone = Backend::with_tools(&["look"]);
    *prompts_alone.about.lock() = about("prompts", "");
    let capability = "tools".to_owned();
    assert_eq!(reason(mount("b1", &prompts_alone)).await, Some(EmptyList::Undeclared { capability }));

    let unknown = Backend::with_tools(&[]);
    unknown.set("tools/list", &[]);
    let told = reason(mount("b1", &unknown)).await.unwrap().to_string();
    assert!(told.contains("with an error: Method not found: tools/list (-32601)"), "{told}");
}

#[tokio::test]
async fn the_words_of_a_server_and_of_the_gateway_are_told_apart() {
    let backend = Backend::with_tools(&["look"]);
    let failing = |error: ErrorObject| {
        *backend.failure.lock() = Some(error);
        reason(mount("b1", &backend))
    };
    let said = ErrorObject::new(-32000, "no list\u{1b}[31m today").written_in(Revision::V2025_11_25);
    let told = failing(said).await.unwrap();
    assert_eq!(told, EmptyList::Refused { error: "no list?[31m today (-32000)".to_owned() });
    let told = failing(ErrorObject::internal("no sign of life for 50 s")).await.unwrap();
    assert_eq!(told, EmptyList::NotFetched { reason: "Server `b1`: no sign of life for 50 s".to_owned() });
    let told = failing(ErrorObject::new(-32000, &"x".repeat(9_999)).written_in(Revision::V2025_11_25)).await;
    assert_eq!(told.map(|told| told.to_string().len() < 500), Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_has_the_time_in_its_status() {
    let backend = Backend::with_tools(&["look"]);
    backend.awake.send_replace(false);
    let gateway = gateway(vec![mount("b1", &backend)]);
    let client = Client::new(gateway.merged());
    let list = background(async move { client.ask(Method::ToolsList, "").await });
    tokio::time::sleep(Duration::from_secs(12)).await;
    match gateway.no_tools(&id("b1")) {
        Some(EmptyList::Silent { seconds }) => assert!((11..=12).contains(&seconds), "{seconds}"),
        told => panic!("{told:?}"),
    }
    backend.awake.send_replace(true);
    list.await.unwrap();
    assert_eq!(gateway.no_tools(&id("b1")), None);
    backend.awake.send_replace(false);
    backend.tell(None, Method::ToolsListChanged, "");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(gateway.no_tools(&id("b1")), None, "it has listed some");
}

#[tokio::test]
async fn rules_and_logins_of_users_are_reasons_too() {
    let backend = Backend::with_tools(&["look"]);
    let rules = ToolRules { allow: Some(NameGlobs::parse(vec!["read_*".to_owned()]).unwrap()), ..ToolRules::default() };
    let restricted = BackendSpec { tools: Some(Arc::new(rules)), ..spec("b1") };
    assert_eq!(reason(mount_as(&restricted, &backend)).await, Some(EmptyList::NoneOffered));
    let nothing = Backend::with_tools(&[]);
    *nothing.about.lock() = about("prompts", "");
    let told = reason(mount_as(&restricted, &nothing)).await;
    assert!(matches!(told, Some(EmptyList::Undeclared { .. })), "rules are no reason there: {told:?}");

    let of_users =
        ConfiguredBackend { connect_tool: Some("connect_account"), ..mount("b1", &Backend::with_tools(&[])) };
    assert_eq!(reason(of_users).await, Some(EmptyList::AwaitsLogin));
}
