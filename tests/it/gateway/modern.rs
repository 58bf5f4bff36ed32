//! Servers of 2026-07-28 at the merged endpoint: server requests and errors.

use std::sync::Arc;

use insta::assert_snapshot;
use lockkeeper::{
    gateway::Gateway,
    mcp::{Call, ErrorObject, Facts, Method, Outcome, Payload, Reply, Revision, translate::Kind},
};

use super::script::{Backend, Client, gateway, id, mount};

const MODERN: Revision = Revision::V2026_07_28;

fn two() -> (Arc<Backend>, Arc<Gateway>) {
    let one = Backend::speaking(MODERN, r#"{"resultType":"complete","tools":[]}"#);
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &Backend::with_tools(&["look"]))]);
    (one, gateway)
}

fn client(gateway: &Arc<Gateway>, revision: Revision) -> Client {
    Client::new(gateway.merged()).speaking(revision)
}

#[tokio::test]
async fn a_call_that_ends_with_server_requests_names_their_backend_and_is_repeated() {
    let (one, gateway) = two();
    *one.answer.lock() = Some(Box::new(|call: &Call| {
        let text = if call.params.string("requestState").is_some() {
            r#"{"resultType":"complete","contents":[{"uri":"a:b","text":"x"}]}"#
        } else {
            r#"{"resultType":"input_required","inputRequests":{"q 1":{"method":"elicitation/create","params":{"message":"Sure?"}}},"requestState":"b1+ é\u0041"}"#
        };
        Reply::done(Outcome::of_modern(&call.method, Payload::new(MODERN, text.into())))
    }));
    let single = Client::new(gateway.single(&id("b1")).unwrap()).speaking(MODERN);
    for (client, uri, shown) in [(client(&gateway, MODERN), "b1+a:b", true), (single, "a:b", false)] {
        let outcome = client.call(Method::ResourcesRead, &format!(r#"{{"uri":"{uri}"}}"#)).outcome().await;
        let Outcome::InputRequired(asked) = outcome else { panic!("questions") };
        assert_eq!(asked.revision, MODERN);
        let text = String::from_utf8_lossy(asked.json()).into_owned();
        let start = r#"{"resultType":"input_required","inputRequests":{"q 1":{"method":"elicitation/create","params":"#;
        let params = if shown {
            r#"{"message":"Sure? (from b1)","_meta":{"lockkeeper/backend":"b1"}}"#
        } else {
            r#"{"message":"Sure?"}"#
        };
        assert_eq!(text, format!(r#"{start}{params}}}}},"requestState":"b1+ é\u0041"}}"#));
        let again = format!(
            r#"{{"uri":"{uri}","inputResponses":{{"q 1":{{"action":"accept"}}}},"requestState":"b1+ é\u0041"}}"#
        );
        let result = client.ask(Method::ResourcesRead, &again).await;
        assert_eq!(result, format!(r#"{{"resultType":"complete","contents":[{{"uri":"{uri}","text":"x"}}]}}"#));
        let sent = one.asked("resources/read").pop().unwrap();
        let retry = r#"{"uri":"a:b","inputResponses":{"q 1":{"action":"accept"}},"requestState":"b1+ é\u0041"}"#;
        assert_eq!(sent, retry);
    }
}

/// The error of a read, for a client of `revision`.
async fn refused(gateway: &Arc<Gateway>, revision: Revision, uri: &str) -> String {
    let params = format!(r#"{{"uri":"{uri}"}}"#);
    let outcome = client(gateway, revision).call(Method::ResourcesRead, &params).outcome().await;
    let facts = Facts { uri: Some(uri), ..Facts::new(Kind::Result, &Method::ResourcesRead) };
    let Ok(Outcome::Failed(error)) = outcome.into_revision(revision, &facts) else { panic!("an error") };
    String::from_utf8_lossy(error.json()).into_owned()
}

#[tokio::test]
async fn an_unknown_resource_has_the_code_of_the_clients_version() {
    // R31, under the URI of the merged endpoint
    let (one, gateway) = two();
    *one.answer.lock() = Some(Box::new(|_| {
        let error = ErrorObject::with_data(-32602, "Resource not found", &serde_json::json!({ "uri": "file:///x" }));
        Reply::failed(error.written_in(MODERN))
    }));
    assert_snapshot!(refused(&gateway, Revision::V2025_11_25, "b1+file:///x").await, @r#"{"code":-32002,"data":{"uri":"b1+file:///x"},"message":"Resource not found"}"#);
    assert_snapshot!(refused(&gateway, MODERN, "b1+file:///x").await, @r#"{"code":-32602,"data":{"uri":"b1+file:///x"},"message":"Resource not found"}"#);
    // an error of the gateway itself
    assert_snapshot!(refused(&gateway, Revision::V2024_11_05, "b3+a:b").await, @r#"{"code":-32002,"data":{"uri":"b3+a:b"},"message":"Resource not found"}"#);
    assert_snapshot!(refused(&gateway, MODERN, "b3+a:b").await, @r#"{"code":-32602,"data":{"uri":"b3+a:b"},"message":"Resource not found"}"#);
}
