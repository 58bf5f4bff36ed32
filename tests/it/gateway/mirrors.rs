//! Parameters that are mirrored in headers for servers of 2026-07-28, and their errors.

use std::{collections::BTreeMap, sync::Arc};

use insta::assert_snapshot;
use lockkeeper::{
    gateway::Gateway,
    mcp::{Call, ErrorObject, Method, Outcome, Payload, Reply, Revision},
};

use super::script::{Backend, Client, gateway, id, mount};

const MODERN: Revision = Revision::V2026_07_28;

fn tools(name: &str) -> String {
    format!(
        r#"{{"resultType":"complete","tools":[{{"name":"query","inputSchema":{{"type":"object","properties":{{"region":{{"type":"string","x-mcp-header":"{name}"}},"at":{{"type":"object","properties":{{"line":{{"type":"integer","x-mcp-header":"Line"}}}}}}}}}}}},{{"name":"plain","inputSchema":{{"type":"object"}}}}]}}"#
    )
}

fn database() -> (Arc<Backend>, Arc<Gateway>) {
    let backend = Backend::speaking(MODERN, &tools("Region"));
    let gateway = gateway(vec![mount("b1", &backend)]);
    (backend, gateway)
}

fn refused(code: i64) -> Reply {
    let error = ErrorObject::with_data(code, "no", &serde_json::json!({ "supported": ["2026-07-28"] }));
    Reply::failed(error.written_in(MODERN))
}

#[tokio::test]
async fn annotated_parameters_are_mirrored_for_clients_of_every_version() {
    let (backend, gateway) = database();
    Client::new(gateway.merged()).tools().await;
    for revision in Revision::ALL {
        for (server, name) in [(gateway.merged(), "b1__query"), (gateway.single(&id("b1")).unwrap(), "query")] {
            let mut client = Client::new(server).speaking(revision);
            if revision == MODERN {
                let mirror = [("region", "Zürich"), ("line", "7.0"), ("other", "x")];
                let mirror = mirror.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
                client.context.mirror = Some(Arc::new(BTreeMap::from(mirror)));
            }
            let call = format!(r#"{{"name":"{name}","arguments":{{"region":"Zürich","at":{{"line":7}}}}}}"#);
            assert!(client.ask(Method::ToolsCall, &call).await.starts_with('{'), "{revision}");
            assert_eq!(backend.mirrors.lock().pop().unwrap(), "line=7 region=Zürich", "{revision}");
        }
    }
    let client = Client::new(gateway.merged());
    for call in
        [r#"{"name":"b1__plain","arguments":{"region":"x"}}"#, r#"{"name":"b1__query","arguments":{"region":null}}"#]
    {
        client.ask(Method::ToolsCall, call).await;
        assert_eq!(backend.mirrors.lock().pop().unwrap(), "");
    }
}

#[tokio::test]
async fn a_changed_tool_is_called_again_with_its_new_annotations() {
    let (backend, gateway) = database();
    let client = Client::new(gateway.merged());
    client.tools().await;
    backend.set("tools/list", &[&tools("Zone")]);
    *backend.answer.lock() = Some(Box::new(|call: &Call| {
        let mirrors = call.context.mirror.as_ref().is_some_and(|mirror| mirror.contains_key("zone"));
        if mirrors {
            Reply::complete(Payload::new(MODERN, r#"{"resultType":"complete","content":[]}"#.into()))
        } else {
            refused(ErrorObject::HEADER_MISMATCH)
        }
    }));
    let call = r#"{"name":"b1__query","arguments":{"region":"eu"}}"#;
    assert_snapshot!(client.ask(Method::ToolsCall, call).await, @r#"{"resultType":"complete","content":[]}"#);
    assert_eq!(*backend.mirrors.lock(), ["region=eu", "zone=eu"]);
}

#[tokio::test]
async fn a_call_before_the_first_list_is_repeated_too() {
    let (backend, gateway) = database();
    *backend.answer.lock() = Some(Box::new(|call: &Call| match &call.context.mirror {
        Some(_) => Reply::complete(Payload::new(MODERN, "{}".into())),
        None => refused(ErrorObject::HEADER_MISMATCH),
    }));
    let client = Client::new(gateway.merged());
    assert_eq!(client.ask(Method::ToolsCall, r#"{"name":"b1__query","arguments":{"region":"eu"}}"#).await, "{}");
}

#[tokio::test]
async fn a_header_error_that_persists_is_reported_as_the_gateways() {
    // `translation` 2.3
    let (backend, gateway) = database();
    let codes = [-32020, -32022, -32600, -32700];
    for (revision, code) in codes.map(|code| (MODERN, code)).into_iter().chain([(Revision::V2025_11_25, -32020)]) {
        *backend.answer.lock() = Some(Box::new(move |_| refused(code)));
        let client = Client::new(gateway.merged()).speaking(revision);
        let answer = client.ask(Method::ToolsCall, r#"{"name":"b1__plain"}"#).await;
        assert_eq!(
            answer,
            format!(
                r#"error -32603 no {{"backend":"b1","server":"b1","supported":["2026-07-28"],"upstreamCode":{code}}}"#
            )
        );
        assert!(client.ask(Method::PromptsGet, r#"{"name":"b1__p"}"#).await.starts_with("error -32603"));
    }
    assert_eq!(backend.asked("tools/call").len(), 5);
    // an error that concerns the client reaches it
    *backend.answer.lock() = Some(Box::new(|_| refused(ErrorObject::MISSING_CAPABILITY)));
    let client = Client::new(gateway.merged()).speaking(MODERN);
    assert!(client.ask(Method::ToolsCall, r#"{"name":"b1__plain"}"#).await.starts_with("error -32021"));
}

#[tokio::test]
async fn a_legacy_server_gets_no_mirrored_headers_and_its_codes_pass() {
    let backend = Backend::with_tools(&[]);
    backend.set("tools/list", &[&tools("Region")]);
    *backend.answer.lock() = Some(Box::new(|_| {
        let error = ErrorObject::new(ErrorObject::HEADER_MISMATCH, "mine");
        Reply::failed(error.written_in(Revision::V2025_11_25))
    }));
    let gateway = gateway(vec![mount("b1", &backend)]);
    let client = Client::new(gateway.merged());
    client.tools().await;
    let outcome = client.call(Method::ToolsCall, r#"{"name":"b1__query","arguments":{"region":"eu"}}"#).outcome().await;
    let Outcome::Failed(error) = outcome else { panic!("an error") };
    assert_eq!((error.code(), backend.mirrors.lock().concat().as_str()), (-32020, ""));
}
