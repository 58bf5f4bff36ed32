//! Metadata in more places than one, and of no use in some.

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use lockkeeper::{
    model::AuthorizationSettings,
    oauth_client::{BearerChallenge, Discovered, LoginError, ResourceServer, discover},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;

use super::http;

/// Answer at a path; `SITE` in it is the site's origin.
#[derive(Clone)]
enum At {
    Json(Value),
    Status(u16),
    Moved(&'static str),
    Page,
}

/// A server at `/mcp` of a site that answers at these paths, and 404 elsewhere.
async fn found(answers: &[(&'static str, At)]) -> Result<Discovered, LoginError> {
    challenged(&BearerChallenge::default(), answers).await
}

/// The same of a server with this challenge.
async fn challenged(challenge: &BearerChallenge, answers: &[(&'static str, At)]) -> Result<Discovered, LoginError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let (answers, site) = (answers.to_vec(), origin.clone());
    let routes = Router::new().fallback(async move |request: Request| {
        let path = request.uri().path();
        let at = answers.iter().find(|(known, _)| *known == path).map(|(_, at)| at.clone());
        answer(at.unwrap_or(At::Status(404)), &site)
    });
    let mut serving = JoinSet::new();
    serving.spawn(axum::serve(listener, routes).into_future());
    let server = Url::parse(&format!("{origin}/mcp")).unwrap();
    let server = ResourceServer { url: &server, settings: &AuthorizationSettings::default() };
    let found = discover(&http(), server, challenge).await;
    found.map(|mut found| {
        found.server.issuer = found.server.issuer.replace(&origin, "SITE");
        found
    })
}

fn answer(at: At, site: &str) -> Response {
    match at {
        At::Json(document) => {
            let body = document.to_string().replace("SITE", site);
            ([(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
        }
        At::Status(code) => StatusCode::from_u16(code).unwrap().into_response(),
        At::Moved(to) => (StatusCode::FOUND, [(header::LOCATION, to.replace("SITE", site))]).into_response(),
        At::Page => ([(header::CONTENT_TYPE, "text/html")], "<html>").into_response(),
    }
}

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn resource(issuers: &[&str]) -> (&'static str, At) {
    (RESOURCE, At::Json(json!({ "resource": "SITE/mcp", "authorization_servers": issuers })))
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer, "authorization_endpoint": "SITE/authorize", "token_endpoint": "SITE/token",
        "code_challenge_methods_supported": ["S256"],
    })
}

fn without(issuer: &str, member: &str) -> At {
    let mut document = metadata(issuer);
    document.as_object_mut().unwrap().remove(member);
    At::Json(document)
}

#[tokio::test]
async fn up_024_a_document_of_no_use_leads_to_the_next_one() {
    for (what, first) in [
        ("404", At::Status(404)),
        ("500", At::Status(500)),
        ("403", At::Status(403)),
        ("a page", At::Page),
        ("a soft 404", At::Json(json!({ "message": "not found" }))),
        ("no token endpoint", without("SITE", "token_endpoint")),
        ("no PKCE", without("SITE", "code_challenge_methods_supported")),
        ("no issuer", without("SITE", "issuer")),
        ("another issuer", At::Json(metadata("https://evil.example"))),
        ("another site", At::Moved("https://elsewhere.example/")),
        ("a circle", At::Moved(OAUTH)),
    ] {
        let site = [resource(&["SITE"]), (OAUTH, first), (OPENID, At::Json(metadata("SITE")))];
        let issuer = found(&site).await.map(|found| found.server.issuer);
        assert_eq!(issuer.as_deref(), Ok("SITE"), "{what}");
    }
}

#[tokio::test]
async fn up_024_metadata_is_found_at_each_well_known_url_of_an_issuer_with_a_path() {
    for path in [
        "/.well-known/oauth-authorization-server/t",
        "/.well-known/openid-configuration/t",
        "/t/.well-known/openid-configuration",
        "/t/.well-known/oauth-authorization-server",
    ] {
        let issuer = found(&[resource(&["SITE/t"]), (path, At::Json(metadata("SITE/t")))]).await;
        assert_eq!(issuer.map(|found| found.server.issuer).as_deref(), Ok("SITE/t"), "{path}");
    }
    let moved = [resource(&["SITE"]), (OAUTH, At::Moved("/metadata")), ("/metadata", At::Json(metadata("SITE/")))];
    assert_eq!(found(&moved).await.unwrap().server.issuer, "SITE/", "within the origin; its own spelling counts");
}

#[tokio::test]
async fn up_024_the_next_authorization_server_is_asked_only_if_the_first_has_no_metadata() {
    let second = ("/.well-known/oauth-authorization-server/two", At::Json(metadata("SITE/two")));
    let one = "/.well-known/oauth-authorization-server/one";
    let both = resource(&["SITE/one", "SITE/two"]);
    for first in [At::Status(404), At::Page, without("SITE/one", "authorization_endpoint")] {
        let found = found(&[both.clone(), (one, first), second.clone()]).await;
        assert_eq!(found.unwrap().server.issuer, "SITE/two");
    }
    for (first, told) in [
        (At::Status(500), "answered 500"),
        (At::Json(metadata("https://evil.example")), "names another issuer, `https://evil.example`"),
    ] {
        let error = found(&[both.clone(), (one, first), second.clone()]).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
    let down = found(&[resource(&["SITE"]), (OAUTH, At::Status(500)), (OPENID, At::Status(502))]).await.unwrap_err();
    assert!(matches!(down, LoginError::Unavailable(_)), "{down:?}");
    let down = found(&[(RESOURCE, At::Status(503)), (OAUTH, At::Json(metadata("SITE")))]).await.unwrap_err();
    assert!(matches!(down, LoginError::Unavailable(_)), "the resource's own metadata is down: {down:?}");
}

#[tokio::test]
async fn up_024_a_useless_metadata_url_in_a_challenge_does_not_hide_the_well_known_ones() {
    for named in
        ["/.well-known/oauth-protected-resource/mcp", "http://a.example/metadata", "metadata", "", "file:///etc/passwd"]
    {
        let challenge = BearerChallenge { resource_metadata: Some(named.to_owned()), ..BearerChallenge::default() };
        let found = challenged(&challenge, &[resource(&["SITE"]), (OAUTH, At::Json(metadata("SITE")))]).await;
        assert_eq!(found.unwrap().server.issuer, "SITE", "{named}");
    }
}
