//! The documents, and the headers of the endpoints for machines.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use lockkeeper::{model::AuthPolicy, oauth::OAuthSettings, support::Live};
use serde_json::{Value, json};

use crate::support::oauth::{Answer, Authority};

const SERVER: &str = "/.well-known/oauth-authorization-server";
const RESOURCE: &str = "/.well-known/oauth-protected-resource";

async fn document(path: &str) -> Value {
    let answer = Authority::new().await.get(path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}");
    answer.json()
}

async fn preflight(path: &str) -> Answer {
    let request = Request::builder().method(Method::OPTIONS).uri(path).header("origin", "https://a.example");
    let request = request.header("access-control-request-method", "POST");
    Authority::new().await.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn oa_001_every_endpoint_has_its_resource_metadata() {
    for endpoint in ["mcp", "sse", "ws"] {
        for path in [format!("/{endpoint}"), format!("/{endpoint}/git")] {
            assert_eq!(document(&format!("{RESOURCE}{path}")).await["resource"], format!("https://gw.example{path}"));
        }
    }
}

#[tokio::test]
async fn oa_002_the_resource_metadata_at_the_root_is_that_of_mcp() {
    assert_eq!(document(RESOURCE).await, document(&format!("{RESOURCE}/mcp")).await);
}

#[tokio::test]
async fn oa_003_the_resource_is_byte_for_byte_the_url_of_the_endpoint() {
    assert_eq!(document(&format!("{RESOURCE}/mcp")).await["resource"], "https://gw.example/mcp");
}

#[tokio::test]
async fn oa_004_the_authorization_server_is_byte_for_byte_the_issuer() {
    let (resource, server) = (document(&format!("{RESOURCE}/mcp")).await, document(SERVER).await);
    assert_eq!(resource["authorization_servers"], json!([server["issuer"]]));
}

#[tokio::test]
async fn oa_005_the_resource_metadata_names_every_ordinary_scope_and_the_header() {
    let found = document(&format!("{RESOURCE}/mcp/git")).await;
    assert_eq!(found["bearer_methods_supported"], json!(["header"]));
    assert_eq!(found["scopes_supported"], json!(["mcp:git"]));
}

#[tokio::test]
async fn oa_007_the_metadata_of_the_server_is_at_its_well_known_path() {
    assert_eq!(document(SERVER).await["issuer"], "https://gw.example");
}

#[tokio::test]
async fn oa_008_the_metadata_has_the_endpoints_codes_and_s256() {
    let found = document(SERVER).await;
    assert_eq!(found["authorization_endpoint"], "https://gw.example/oauth/authorize");
    assert_eq!(found["token_endpoint"], "https://gw.example/oauth/token");
    assert_eq!(found["response_types_supported"], json!(["code"]));
    assert_eq!(found["code_challenge_methods_supported"], json!(["S256"]));
}

#[tokio::test]
async fn oa_009_the_metadata_says_what_clients_copy_and_leaves_administration_out() {
    let found = document(SERVER).await;
    assert_eq!(found["registration_endpoint"], "https://gw.example/oauth/register");
    assert_eq!(found["response_modes_supported"], json!(["query"]));
    assert!(found["grant_types_supported"].as_array().unwrap().contains(&json!("refresh_token")));
    assert!(!found["scopes_supported"].as_array().unwrap().contains(&json!("mcp:admin")));
}

#[tokio::test]
async fn oa_010_public_clients_are_announced() {
    let methods = document(SERVER).await["token_endpoint_auth_methods_supported"].take();
    assert!(methods.as_array().unwrap().contains(&json!("none")), "{methods}");
}

#[tokio::test]
async fn oa_012_the_issuer_of_responses_is_announced_unless_that_is_switched_off() {
    let announced = "authorization_response_iss_parameter_supported";
    assert_eq!(document(SERVER).await[announced], true);
    let policy = Live::new(AuthPolicy { advertise_iss: lockkeeper::model::AdvertiseIss::No, ..AuthPolicy::default() });
    let silent = Authority::with(OAuthSettings { policy, ..Authority::settings() }).await;
    assert_eq!(silent.get(SERVER).await.json()[announced], Value::Null);
}

#[tokio::test]
async fn oa_014_the_openid_alias_has_what_strict_parsers_require() {
    let (alias, server) = (document("/.well-known/openid-configuration").await, document(SERVER).await);
    assert_eq!(alias["subject_types_supported"], json!(["public"]));
    assert!(alias["id_token_signing_alg_values_supported"].is_array() && alias["jwks_uri"].is_string());
    assert!(server.as_object().unwrap().iter().all(|(name, value)| alias[name] == *value));
}

#[tokio::test]
async fn oa_015_no_member_of_a_document_is_null_or_empty() {
    for path in [SERVER, RESOURCE, "/.well-known/openid-configuration"] {
        for (name, value) in document(path).await.as_object().unwrap() {
            assert!(!value.is_null() && value != "" && *value != json!([]), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn oa_016_every_other_probe_is_404_in_json() {
    for path in [format!("{SERVER}/mcp"), "/mcp/.well-known/oauth-authorization-server".to_owned()] {
        let answer = Authority::new().await.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.json().is_object()), (404, true), "{path}");
    }
}

#[tokio::test]
async fn oa_018_documents_can_be_kept_and_queries_change_nothing() {
    let answer = Authority::new().await.get(&format!("{RESOURCE}/mcp?api_key=x")).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    assert!(answer.header("etag").is_some());
    assert_eq!(answer.json(), document(&format!("{RESOURCE}/mcp")).await);
}

#[tokio::test]
async fn oa_019_the_endpoints_of_the_first_version_are_aliases() {
    let authority = Authority::new().await;
    for path in ["/token", "/register"] {
        let request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
        let answer = authority.send(request.body(Body::from("x")).unwrap()).await;
        assert!([400, 401].contains(&answer.status.as_u16()), "{path}: {}", answer.status);
    }
}

#[tokio::test]
async fn oa_021_pages_of_every_origin_read_the_endpoints_for_machines() {
    for path in [SERVER, RESOURCE, "/oauth/jwks"] {
        let answer = Authority::new().await.get(path).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), None, "{path}");
    }
}

#[tokio::test]
async fn oa_023_a_preflight_is_204_and_names_the_headers() {
    for path in ["/oauth/token", "/oauth/register", "/oauth/revoke", SERVER] {
        let answer = preflight(path).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}");
        let allowed = answer.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
        assert!(allowed.contains("authorization") && allowed.contains("mcp-protocol-version"), "{path}: {allowed}");
    }
}

#[tokio::test]
async fn oa_026_answers_with_secrets_are_not_stored() {
    let authority = Authority::new().await;
    let registered = authority.register(&json!({ "redirect_uris": ["https://a.example/cb"] })).await;
    for answer in [registered, authority.token(&[]).await, authority.form("/oauth/revoke", &[]).await] {
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", answer.status);
    }
}

#[tokio::test]
async fn oa_102_the_key_set_has_public_members_alone() {
    let keys = document("/oauth/jwks").await;
    let key = &keys["keys"][0];
    assert_eq!(
        (&key["kty"], &key["crv"], &key["use"], &key["alg"]),
        (&json!("EC"), &json!("P-256"), &json!("sig"), &json!("ES256"))
    );
    assert!(key["x"].is_string() && key["y"].is_string() && key["kid"].is_string() && key["d"].is_null());
}

#[tokio::test]
async fn n_001_metadata_of_a_path_that_is_no_endpoint_is_404() {
    let answer = Authority::new().await.get(&format!("{RESOURCE}/nope")).await;
    assert_eq!((answer.status.as_u16(), answer.json().is_object()), (404, true));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
}

#[tokio::test]
async fn n_002_metadata_of_the_server_below_an_endpoint_is_404() {
    let answer = Authority::new().await.get(&format!("{SERVER}/mcp")).await;
    assert_eq!((answer.status.as_u16(), answer.json().is_object()), (404, true));
}

#[tokio::test]
async fn n_004_a_forwarded_host_does_not_move_the_issuer() {
    let request = Request::get(SERVER).header("x-forwarded-host", "evil.example").header("host", "evil.example");
    let answer = Authority::new().await.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.json()["issuer"], "https://gw.example");
}

#[tokio::test]
async fn oa_013_the_metadata_names_what_ends_and_describes_tokens() {
    let found = document(SERVER).await;
    for name in ["revocation_endpoint", "introspection_endpoint", "jwks_uri", "service_documentation"] {
        assert!(found[name].as_str().unwrap().starts_with("https://gw.example/"), "{name}");
    }
}
