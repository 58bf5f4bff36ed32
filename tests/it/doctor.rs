//! `lockkeeper doctor` at deployments with one fault each: what it finds, and for whom.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::RawQuery,
    http::{StatusCode, header},
    response::{Html, IntoResponse as _, Redirect, Response},
    routing::{any, get, post},
};
use lockkeeper::{
    doctor::{CLIENTS, ClientVerdict, Doctor, Examination, RegistrationPolicy, Severity},
    support::SeededRandom,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;

/// One fault of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    NoLogin,
    NoChallenge,
    DeadResourceMetadata,
    RedirectedMetadata,
    FailingMetadata,
    HtmlMetadata,
    OriginAsResource,
    OtherIssuer,
    NullMember,
    NoPkce,
    NoRegistration,
    RefusedRegistration,
    RefusedRequest,
    SilentApproval,
    UnreadDocuments,
    BrokenTokenEndpoint,
    NoCors,
}

/// A deployment that is good but for one fault, and needs no person to be looked at.
fn deployment(fault: Fault, origin: &str) -> Router {
    let (server, origin) = (server_metadata(fault, origin), origin.to_owned());
    let challenge = match fault {
        Fault::DeadResourceMetadata => format!("Bearer resource_metadata=\"{origin}/nowhere\""),
        _ => format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\""),
    };
    let open = move |answer: Response| match fault {
        Fault::NoCors => answer,
        _ => (cors(), answer).into_response(),
    };
    let mcp = move || async move {
        open(match fault {
            Fault::NoLogin => Json(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).into_response(),
            Fault::NoChallenge => StatusCode::UNAUTHORIZED.into_response(),
            _ => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response(),
        })
    };
    let path = if fault == Fault::OriginAsResource { "" } else { "/mcp" };
    let resource = json!({ "resource": format!("{origin}{path}"), "authorization_servers": [origin] });
    let server = move || async move {
        open(match fault {
            Fault::RedirectedMetadata => Redirect::temporary("https://elsewhere.example/").into_response(),
            Fault::FailingMetadata => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Fault::HtmlMetadata => Html("<p>not here").into_response(),
            _ => Json(server).into_response(),
        })
    };
    let resource = move || async move { open(Json(resource).into_response()) };
    let preflight = move || async move { open(StatusCode::NO_CONTENT.into_response()) };
    let token = move || async move {
        match fault {
            Fault::BrokenTokenEndpoint => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            _ => refusal("invalid_grant"),
        }
    };
    Router::new()
        .route("/mcp", post(mcp).options(preflight))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(server))
        .route("/register", post(move |body: String| async move { register(fault, &body) }).options(preflight))
        .route("/authorize", get(move |query: RawQuery| async move { authorize(fault, query) }))
        .route("/token", post(token).options(preflight))
        .fallback(any(|| async { StatusCode::NOT_FOUND }))
}

fn server_metadata(fault: Fault, origin: &str) -> Value {
    let at = |path: &str| format!("{origin}{path}");
    let mut server = json!({
        "issuer": origin, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"), "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
    });
    match fault {
        Fault::OtherIssuer => server["issuer"] = at("/").into(),
        Fault::NullMember => server["op_tos_uri"] = Value::Null,
        Fault::NoPkce => server["code_challenge_methods_supported"] = json!(["plain"]),
        Fault::UnreadDocuments => server["client_id_metadata_document_supported"] = true.into(),
        Fault::NoRegistration => drop(server.as_object_mut().unwrap().remove("registration_endpoint")),
        _ => {}
    }
    server
}

fn register(fault: Fault, body: &str) -> Response {
    let mut answer: Value = serde_json::from_str(body).unwrap();
    if fault == Fault::RefusedRegistration {
        return refusal("invalid_redirect_uri");
    }
    answer["client_id"] = "a".into();
    answer["token_endpoint_auth_method"] = "none".into();
    (StatusCode::CREATED, Json(answer)).into_response()
}

fn authorize(fault: Fault, RawQuery(query): RawQuery) -> Response {
    match fault {
        Fault::RefusedRequest => refusal("invalid_target"),
        Fault::SilentApproval => {
            let query = query.unwrap();
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            let callback = pairs.find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
            Redirect::to(&format!("{callback}?code=x")).into_response()
        }
        Fault::UnreadDocuments if query.is_some_and(|query| query.contains("client_id=https")) => {
            (StatusCode::BAD_GATEWAY, Json(json!({ "error": "temporarily_unavailable" }))).into_response()
        }
        _ => Html("<form>").into_response(),
    }
}

fn refusal(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response()
}

fn cors() -> [(header::HeaderName, &'static str); 3] {
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version"),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "www-authenticate"),
    ]
}

/// The examinations of a deployment with this fault.
async fn examined(fault: Fault, policy: RegistrationPolicy) -> Vec<Examination> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut listening = JoinSet::new();
    listening.spawn(axum::serve(listener, deployment(fault, &origin)).into_future());
    let server = Url::parse(&format!("{origin}/mcp")).unwrap();
    let doctor = Doctor::new(server, policy, Arc::new(SeededRandom::new(1))).unwrap();
    let mut results = Vec::new();
    // hosted clients refuse the address of every test
    for client in CLIENTS.iter().filter(|client| !["claude", "chatgpt"].contains(&client.id)) {
        results.push(Box::pin(doctor.examine(client)).await);
    }
    results
}

/// The clients that do not connect, and all problems.
async fn seen(fault: Fault) -> (Vec<&'static str>, String) {
    let results = examined(fault, RegistrationPolicy::Once).await;
    let failing = results.iter().filter(|one| one.verdict == ClientVerdict::Fails).map(|one| one.client.id).collect();
    let problems: Vec<_> = results.iter().flat_map(|one| &one.findings).collect();
    (failing, format!("{problems:?}"))
}

#[tokio::test]
async fn every_client_connects_to_a_good_deployment() {
    for (fault, verdict) in [(Fault::None, ClientVerdict::Connects), (Fault::NoLogin, ClientVerdict::NeedsNoLogin)] {
        for result in examined(fault, RegistrationPolicy::Once).await {
            assert_eq!((result.verdict, &result.findings), (verdict, &Vec::new()), "{}", result.client.id);
        }
    }
}

#[tokio::test]
async fn without_registrations_nothing_is_said_of_what_follows() {
    for result in examined(Fault::RefusedRequest, RegistrationPolicy::Never).await {
        assert_eq!((result.verdict, result.findings.len()), (ClientVerdict::NotRegistered, 0), "{}", result.client.id);
    }
}

#[tokio::test]
async fn a_fault_that_stops_every_client_is_named_with_its_document() {
    let faults = [
        (Fault::DeadResourceMetadata, "the challenge names this document, and it does not exist"),
        (Fault::RedirectedMetadata, "it redirects to `https://elsewhere.example/`"),
        (Fault::FailingMetadata, "it answers 503: clients stop there"),
        (Fault::HtmlMetadata, "it is no JSON object"),
        (Fault::NoPkce, "does not have `S256`"),
        (Fault::NoRegistration, "there is no `registration_endpoint`"),
        (Fault::RefusedRegistration, "400 (invalid_redirect_uri)"),
        (Fault::RefusedRequest, "the request is refused: 400 (invalid_target)"),
        (Fault::SilentApproval, "it gives a code without asking anybody"),
    ];
    for (fault, text) in faults {
        let (failing, problems) = seen(fault).await;
        assert_eq!(failing.len(), CLIENTS.len() - 2, "{fault:?}: {failing:?}");
        assert!(problems.contains(text), "{fault:?}: {problems}");
    }
}

#[tokio::test]
async fn a_fault_that_some_clients_bear_is_named_for_the_others() {
    let strict = ["goose", "codex", "typescript-2", "python-2", "rmcp"];
    let schema = ["claude-code", "cursor", "opencode", "typescript-1", "typescript-2", "mcp-remote", "inspector"];
    let documented = ["claude-code", "vscode", "codex", "opencode"];
    let faults: [(Fault, &[&str], &str); 5] = [
        (Fault::OriginAsResource, &["vscode", "copilot", "gemini"], "which is not the URL of the server"),
        (Fault::OtherIssuer, &strict, "and the resource metadata names"),
        (Fault::NullMember, &schema, "`op_tos_uri` is null"),
        (Fault::UnreadDocuments, &documented, "`client_documents = \\\"off\\\"`"),
        (Fault::NoCors, &["inspector"], "pages of another origin cannot read"),
    ];
    for (fault, clients, text) in faults {
        let (failing, problems) = seen(fault).await;
        assert_eq!(failing, clients, "{fault:?}");
        assert!(problems.contains(text), "{fault:?}: {problems}");
    }
}

#[tokio::test]
async fn a_fault_that_clients_find_a_way_around_is_a_warning() {
    let faults = [
        (Fault::NoChallenge, "it does not begin with `Bearer`"),
        (Fault::BrokenTokenEndpoint, "it answers 500 to a code that does not exist"),
    ];
    for (fault, text) in faults {
        let results = examined(fault, RegistrationPolicy::Once).await;
        for Examination { client, verdict, findings, .. } in results {
            assert_eq!(verdict, ClientVerdict::Connects, "{}: {findings:?}", client.id);
            let warnings = findings.iter().filter(|finding| finding.severity == Severity::MayFail);
            assert!(warnings.clone().any(|finding| finding.problem.contains(text)), "{}: {findings:?}", client.id);
        }
    }
}
