//! `lockkeeper doctor` at deployments with one fault each: what it finds, and for whom.

use std::sync::Arc;

use http::StatusCode;
use lockkeeper::{
    doctor::{CLIENTS, ClientVerdict, Doctor, Examination, RegistrationPolicy, Severity},
    fetch::OpenClient,
    support::SeededRandom,
};
use serde_json::{Value, json};
use url::Url;

use crate::kit::{
    authority::{
        Endpoint,
        answers::{self, Answer},
    },
    protected::ProtectedServer,
};

/// One fault of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    NoLogin,
    NoLoginNoCors,
    NoChallenge,
    DeadResourceMetadata,
    RedirectedMetadata,
    FailingMetadata,
    HtmlMetadata,
    OriginAsResource,
    OtherIssuer,
    NullMember,
    NoPkce,
    UnannouncedPkce,
    Page(StatusCode, &'static str),
    NoRegistration,
    RefusedRegistration,
    RefusedRequest,
    SilentApproval,
    UnreadDocuments,
    BrokenTokenEndpoint,
    NoCors,
}

/// A deployment that is good but for one fault, and needs no person to be looked at.
async fn deployment(fault: Fault) -> ProtectedServer {
    let server = ProtectedServer::start_at_one_origin().await;
    let (authority, origin) = (&server.authority, server.origin());
    authority.differs(Endpoint::Metadata, json!({ "token_endpoint_auth_methods_supported": ["none"] }));
    if fault != Fault::SilentApproval {
        authority.answers(Endpoint::Authorize, answers::page("<form>"));
    }
    let metadata = |members: Value| authority.differs(Endpoint::Metadata, members);
    let instead = |endpoint: Endpoint, answer: Answer| authority.answers(endpoint, answer);
    match fault {
        Fault::None | Fault::SilentApproval => {}
        Fault::NoLogin | Fault::NoLoginNoCors => {
            authority.script().is_open_to_pages = fault == Fault::NoLogin;
            let result = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
            instead(Endpoint::Server, answers::json(StatusCode::OK, &result));
        }
        Fault::NoChallenge => instead(Endpoint::Server, answers::status(StatusCode::UNAUTHORIZED)),
        Fault::DeadResourceMetadata => {
            instead(Endpoint::Server, answers::challenge(&format!("{origin}/nowhere")));
        }
        Fault::RedirectedMetadata => instead(Endpoint::Metadata, answers::redirect("https://elsewhere.example/")),
        Fault::FailingMetadata => {
            instead(Endpoint::Metadata, answers::status(StatusCode::SERVICE_UNAVAILABLE));
        }
        Fault::HtmlMetadata => instead(Endpoint::Metadata, answers::page("<p>not here")),
        Fault::OriginAsResource => server.names_resource(origin),
        Fault::OtherIssuer => metadata(json!({ "issuer": format!("{origin}/") })),
        Fault::NullMember => {
            let mut document = authority.metadata();
            document["op_tos_uri"] = Value::Null;
            instead(Endpoint::Metadata, answers::json(StatusCode::OK, &document));
        }
        Fault::NoPkce => metadata(json!({ "code_challenge_methods_supported": ["plain"] })),
        Fault::UnannouncedPkce => metadata(json!({ "code_challenge_methods_supported": null })),
        Fault::Page(status, text) => {
            let mut answer = answers::page(text);
            *answer.status_mut() = status;
            instead(Endpoint::Server, answer);
        }
        Fault::NoRegistration => metadata(json!({ "registration_endpoint": null })),
        Fault::RefusedRegistration => instead(Endpoint::Register, answers::error("invalid_redirect_uri")),
        Fault::RefusedRequest => instead(Endpoint::Authorize, answers::error("invalid_target")),
        Fault::UnreadDocuments => {
            metadata(json!({ "client_id_metadata_document_supported": true }));
            let failed = answers::json(StatusCode::BAD_GATEWAY, &json!({ "error": "temporarily_unavailable" }));
            authority.answers_if(Endpoint::Authorize, move |asked| {
                let is_document = asked.get("client_id").starts_with("https:");
                Some(if is_document { failed.clone() } else { answers::page("<form>") })
            });
        }
        Fault::BrokenTokenEndpoint => {
            instead(Endpoint::Token, answers::status(StatusCode::INTERNAL_SERVER_ERROR));
        }
        Fault::NoCors => authority.script().is_open_to_pages = false,
    }
    server
}

/// Clients that run at their vendors, which cannot reach the address of any test.
const HOSTED: [&str; 2] = ["claude", "chatgpt"];

/// The examinations of a deployment with this fault, for all clients.
async fn examined_for_all(fault: Fault, policy: RegistrationPolicy) -> Vec<Examination> {
    let deployed = deployment(fault).await;
    let (server, http) = (Url::parse(&deployed.url).unwrap(), OpenClient::direct().unwrap());
    let doctor = Doctor::new(server, policy, http, Arc::new(SeededRandom::new(1)));
    let mut results = Vec::new();
    for client in CLIENTS {
        results.push(Box::pin(doctor.examine(client)).await);
    }
    results
}

/// The examinations for the clients that can reach the address of a test.
async fn examined(fault: Fault, policy: RegistrationPolicy) -> Vec<Examination> {
    let mut results = examined_for_all(fault, policy).await;
    results.retain(|one| !HOSTED.contains(&one.client.id));
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
async fn oa_020_hosted_clients_cannot_reach_a_private_address_that_needs_no_login_either() {
    for fault in [Fault::None, Fault::NoLogin] {
        let results = examined_for_all(fault, RegistrationPolicy::Once).await;
        for result in results.iter().filter(|one| HOSTED.contains(&one.client.id)) {
            assert_eq!(result.verdict, ClientVerdict::CannotReach, "{fault:?} {}", result.client.id);
            let problems: Vec<_> = result.findings.iter().map(|finding| finding.problem.as_str()).collect();
            assert!(problems.contains(&"it is not https; the client runs at its vendor"), "{problems:?}");
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
        (Fault::HtmlMetadata, "it is not a JSON object"),
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
    let careful = [&schema[..2], &["goose", "codex"], &schema[2..], &["rmcp"]].concat();
    let faults: [(Fault, &[&str], &str); 7] = [
        (Fault::NoPkce, &careful, "does not have `S256`"),
        (Fault::OriginAsResource, &["vscode", "copilot", "gemini"], "which is not the URL of the server"),
        (Fault::OtherIssuer, &strict, "and the resource metadata names"),
        (Fault::NullMember, &schema, "`op_tos_uri` is null"),
        (Fault::UnreadDocuments, &documented, "`client_documents = \\\"off\\\"`"),
        (Fault::NoCors, &["inspector"], "pages of another origin cannot read"),
        (Fault::NoLoginNoCors, &["inspector"], "pages of another origin cannot read"),
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

#[tokio::test]
async fn without_an_announcement_of_pkce_the_sdks_start_the_login_and_claude_does_not() {
    for result in examined_for_all(Fault::UnannouncedPkce, RegistrationPolicy::Once).await {
        let says = result.findings.iter().any(|finding| finding.problem.contains("does not have `S256`"));
        assert_eq!(says, HOSTED.contains(&result.client.id), "{}", result.client.id);
        if result.client.id.starts_with("typescript") || result.client.id.starts_with("python") {
            assert_eq!(result.verdict, ClientVerdict::Connects, "{}", result.client.id);
        }
    }
}

#[tokio::test]
async fn a_page_in_place_of_the_server_is_no_server_without_a_login() {
    for (status, page, told) in [
        (StatusCode::OK, "<!DOCTYPE html><html><body>ERR_NGROK_6024", "the warning page of a tunnel (ngrok)"),
        (StatusCode::OK, "<html><div id=\"root\"></div>", "a single-page app"),
        (StatusCode::FORBIDDEN, "<html><title>Just a moment...</title>", "a bot challenge"),
        (StatusCode::PAYLOAD_TOO_LARGE, "<html>413 Request Entity Too Large", "413"),
        (StatusCode::BAD_GATEWAY, "<html>502 Bad Gateway", "502"),
    ] {
        for result in examined(Fault::Page(status, page), RegistrationPolicy::Once).await {
            assert_eq!(result.verdict, ClientVerdict::Fails, "{status} {}", result.client.id);
            let finding = &result.findings[0];
            assert!(finding.problem.contains(told) && finding.problem.contains(status.as_str()), "{finding:?}");
            assert!(finding.advice.contains("stands in front"), "{finding:?}");
        }
    }
}
