//! Discovery documents and CORS.

use axum::body::Body;
use http::{Request, StatusCode};
use insta::assert_snapshot;
use lockkeeper::{
    model::{AuthPolicy, ConcealBackends},
    oauth::OAuthSettings,
    support::Live,
};

use crate::support::oauth::Authority;

#[tokio::test]
async fn the_metadata_of_the_server_names_every_endpoint() {
    let authority = Authority::new().await;
    let answer = authority.get("/.well-known/oauth-authorization-server").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    let document = answer.json();
    let members: Vec<String> =
        document.as_object().unwrap().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_snapshot!(members.join("\n"), @r#"
    authorization_endpoint: "https://gw.example/oauth/authorize"
    authorization_response_iss_parameter_supported: true
    code_challenge_methods_supported: ["S256"]
    device_authorization_endpoint: "https://gw.example/oauth/device_authorization"
    grant_types_supported: ["authorization_code","refresh_token","client_credentials","urn:ietf:params:oauth:grant-type:device_code"]
    introspection_endpoint: "https://gw.example/oauth/introspect"
    introspection_endpoint_auth_methods_supported: ["client_secret_basic","client_secret_post","private_key_jwt"]
    introspection_endpoint_auth_signing_alg_values_supported: ["ES256","EdDSA","PS256","RS256"]
    issuer: "https://gw.example"
    jwks_uri: "https://gw.example/oauth/jwks"
    pushed_authorization_request_endpoint: "https://gw.example/oauth/par"
    registration_endpoint: "https://gw.example/oauth/register"
    response_modes_supported: ["query"]
    response_types_supported: ["code"]
    revocation_endpoint: "https://gw.example/oauth/revoke"
    revocation_endpoint_auth_methods_supported: ["none","client_secret_basic","client_secret_post","private_key_jwt"]
    revocation_endpoint_auth_signing_alg_values_supported: ["ES256","EdDSA","PS256","RS256"]
    scopes_supported: ["mcp:use"]
    service_documentation: "https://gw.example/"
    token_endpoint: "https://gw.example/oauth/token"
    token_endpoint_auth_methods_supported: ["none","client_secret_basic","client_secret_post","private_key_jwt"]
    token_endpoint_auth_signing_alg_values_supported: ["ES256","EdDSA","PS256","RS256"]
    "#);
    let openid = authority.get("/.well-known/openid-configuration?x=1").await.json();
    assert_eq!(openid["jwks_uri"], "https://gw.example/oauth/jwks");
    assert_eq!(openid["subject_types_supported"], serde_json::json!(["public"]));
    let text = openid.to_string();
    assert!(!text.contains("null") && !text.contains("\"\""), "OA-15: {text}");
}

#[tokio::test]
async fn every_endpoint_has_its_own_metadata_and_the_root_has_that_of_the_merged_one() {
    let authority = Authority::new().await;
    let resource = async |path: &str| {
        let answer = authority.get(&format!("/.well-known/oauth-protected-resource{path}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.json()["authorization_servers"], serde_json::json!(["https://gw.example"]));
        let answer = answer.json();
        format!("{} {}", answer["resource"].as_str().unwrap(), answer["scopes_supported"])
    };
    assert_eq!(resource("").await, r#"https://gw.example/mcp ["mcp:use"]"#);
    assert_eq!(resource("/mcp").await, r#"https://gw.example/mcp ["mcp:use"]"#);
    assert_eq!(resource("/mcp/?api_key=x").await, r#"https://gw.example/mcp ["mcp:use"]"#);
    assert_eq!(resource("/mcp/git").await, r#"https://gw.example/mcp/git ["mcp:git"]"#);
    assert_eq!(resource("/sse").await, r#"https://gw.example/sse ["mcp:use"]"#);
    assert_eq!(resource("/sse/time/").await, r#"https://gw.example/sse/time ["mcp:time"]"#);
}

#[tokio::test]
async fn every_other_probe_is_404_in_json() {
    let settings = OAuthSettings {
        policy: Live::new(AuthPolicy { conceal_servers: ConcealBackends::No, ..AuthPolicy::default() }),
        ..Authority::settings()
    };
    let authority = Authority::with(settings).await;
    for path in [
        "/.well-known/oauth-protected-resource/nope",     // N-1
        "/.well-known/oauth-protected-resource/mcp/nope", // OA-6
        "/.well-known/oauth-authorization-server/mcp",    // N-2
        "/.well-known/openid-configuration/mcp",
        "/.well-known/anything",
        "/mcp/.well-known/oauth-authorization-server", // OA-16
        "/mcp/git/.well-known/openid-configuration",
        "/sse/.well-known/oauth-protected-resource",
    ] {
        let answer = authority.get(path).await;
        assert_eq!(answer.error(), "404 not_found", "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
    }
}

#[tokio::test]
async fn unauthenticated_clients_do_not_learn_which_backends_exist() {
    let authority = Authority::new().await;
    let known = authority.get("/.well-known/oauth-protected-resource/mcp/git").await;
    let unknown = authority.get("/.well-known/oauth-protected-resource/mcp/nope").await;
    assert_eq!(known.body.replace("git", "nope"), unknown.body);
}

#[tokio::test]
async fn a_preflight_needs_nothing_and_no_header_moves_the_issuer() {
    let authority = Authority::new().await;
    for path in ["/oauth/token", "/oauth/register", "/oauth/jwks", "/.well-known/oauth-authorization-server"] {
        let answer = authority.send(Request::options(path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(answer.header("access-control-allow-headers").unwrap().contains("MCP-Protocol-Version"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    // N-4
    let forged = Request::get("/.well-known/oauth-authorization-server").header("x-forwarded-host", "evil");
    let answer = authority.send(forged.header("host", "evil").body(Body::empty()).unwrap()).await;
    assert!(!answer.body.contains("evil"));
}

#[tokio::test]
async fn an_issuer_with_a_path_is_found_in_all_three_places() {
    let authority = Authority::with(OAuthSettings::new("https://gw.example/p/")).await;
    for path in [
        "/.well-known/oauth-authorization-server/p",
        "/.well-known/openid-configuration/p",
        "/p/.well-known/openid-configuration",
    ] {
        assert_eq!(authority.get(path).await.json()["issuer"], "https://gw.example/p", "{path}");
    }
    let resource = authority.get("/.well-known/oauth-protected-resource/p/mcp").await.json();
    assert_eq!(resource["resource"], "https://gw.example/p/mcp");
}

#[tokio::test]
async fn the_key_set_has_only_public_members() {
    let authority = Authority::new().await;
    let keys = authority.get("/oauth/jwks").await.json();
    let key = keys["keys"][0].as_object().unwrap();
    let members: Vec<&str> = key.keys().map(String::as_str).collect();
    assert_eq!(members, ["alg", "crv", "kid", "kty", "use", "x", "y"]);
}

#[tokio::test]
async fn a_wrong_method_gets_the_allowed_ones() {
    let authority = Authority::new().await;
    let answer = authority.get("/oauth/token").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, Some("POST, OPTIONS")));
}
