//! The protected endpoints: what is a credential, and what is not.

use http::StatusCode;

use super::super::gate::{knock, knock_with};
use crate::support::oauth::Authority;

/// Status and challenge of a request.
async fn challenge(uri: &str, authorization: Option<&str>) -> (u16, String) {
    let answer = knock(&Authority::new().await, uri, authorization).await;
    (answer.status.as_u16(), answer.header("www-authenticate").unwrap_or_default().to_owned())
}

#[tokio::test]
async fn oa_024_pages_can_read_the_challenge() {
    let answer = knock(&Authority::new().await, "/mcp", None).await;
    let exposed = answer.header("access-control-expose-headers").unwrap();
    for name in ["WWW-Authenticate", "Mcp-Session-Id", "MCP-Protocol-Version", "Retry-After"] {
        assert!(exposed.contains(name), "{name}: {exposed}");
    }
}

#[tokio::test]
async fn oa_106_the_scheme_of_a_token_may_be_in_any_case_and_its_place_is_the_header() {
    let authority = Authority::new().await;
    let token = authority.access_token("/mcp").await;
    assert_eq!(knock(&authority, "/mcp", Some(&format!("bEaReR {token}"))).await.status, StatusCode::OK);
    assert_eq!(knock(&authority, &format!("/mcp?access_token={token}"), None).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn oa_109_a_challenge_is_one_line_that_every_parser_reads() {
    let (_, text) = challenge("/mcp", Some("Bearer garbage")).await;
    let at = |name: &str| text.find(name).unwrap();
    assert!(text.starts_with("Bearer error=\"invalid_token\", "));
    assert!(at("error=") < at("scope=") && at("scope=") < at("resource_metadata="));
    assert!(at("resource_metadata=") < at("error_description="));
    let description = text.split("error_description=").nth(1).unwrap().trim_matches('"');
    assert!(!description.contains(['=', '"', '\\']), "{description}");
}

#[tokio::test]
async fn oa_119_other_schemes_count_as_none() {
    assert_eq!(challenge("/mcp", Some("DPoP abc")).await, challenge("/mcp", None).await);
}

#[tokio::test]
async fn oa_120_sse_takes_a_key_by_header_or_query() {
    let authority = Authority::new().await;
    let key = authority.key.expose();
    assert_eq!(knock(&authority, "/sse", Some(&format!("Bearer {key}"))).await.status, StatusCode::OK);
    assert_eq!(knock(&authority, &format!("/sse?api_key={key}"), None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn oa_121_the_same_credential_twice_is_one() {
    let authority = Authority::new().await;
    let key = authority.key.expose();
    for (path, header) in [
        (format!("/sse?api_key={key}"), format!("Bearer {key}")),
        ("/sse".to_owned(), format!("Bearer {key}, Bearer {key}")),
    ] {
        assert_eq!(knock(&authority, &path, Some(&header)).await.status, StatusCode::OK, "{path} {header}");
    }
}

#[tokio::test]
async fn oa_124_an_answer_to_a_key_in_the_query_is_not_stored_and_marked_as_deprecated() {
    let authority = Authority::new().await;
    let answer = knock(&authority, &format!("/sse?api_key={}", authority.key.expose()), None).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert!(answer.header("deprecation").is_some());
}

#[tokio::test]
async fn oa_125_a_key_has_an_id_a_secret_and_a_checksum() {
    let authority = Authority::new().await;
    let parts: Vec<&str> = authority.key.expose().split('_').collect();
    assert_eq!((parts.len(), parts[0], parts[2].len(), parts[3].len()), (4, "lkk", 43, 6));
}

#[tokio::test]
async fn n_010_a_page_of_another_origin_reads_the_challenge() {
    let answer = knock(&Authority::new().await, "/mcp", None).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));
}

#[tokio::test]
async fn n_104_basic_and_dpop_are_as_no_credential() {
    for scheme in ["Basic dTpw", "DPoP abc"] {
        assert_eq!(challenge("/mcp", Some(scheme)).await, challenge("/mcp", None).await, "{scheme}");
    }
}

#[tokio::test]
async fn n_105_garbage_is_an_invalid_token() {
    let answer = knock(&Authority::new().await, "/mcp", Some("Bearer garbage")).await;
    assert_eq!(answer.error(), "401 invalid_token");
}

#[tokio::test]
async fn n_107_a_token_in_the_query_or_a_form_is_none() {
    let token = Authority::new().await.access_token("/mcp").await;
    assert_eq!(challenge(&format!("/mcp?access_token={token}"), None).await, challenge("/mcp", None).await);
}

#[tokio::test]
async fn n_120_credentials_that_differ_are_400() {
    let authority = Authority::new().await;
    let (key, token) = (authority.key.expose(), authority.access_token("/sse").await);
    for (path, header) in [
        (format!("/sse?api_key={key}"), format!("Bearer {token}")),
        ("/sse".to_owned(), format!("Bearer {key}, Bearer {token}")),
    ] {
        assert_eq!(knock(&authority, &path, Some(&header)).await.error(), "400 invalid_request", "{path}");
    }
}

#[tokio::test]
async fn n_115_a_cookie_alone_opens_nothing() {
    let authority = Authority::new().await;
    let token = authority.access_token("/mcp").await;
    let answer = knock_with(&authority, "cookie", &format!("session={token}; __Host-session={token}")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn oa_017_an_endpoint_has_one_meaning_with_and_without_a_slash() {
    let authority = Authority::new().await;
    let token = format!("Bearer {}", authority.access_token("/mcp").await);
    for path in ["/mcp", "/mcp/"] {
        assert_eq!(knock(&authority, path, Some(&token)).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn oa_117_a_credential_does_not_pass_the_gate() {
    let authority = Authority::new().await;
    let token = authority.access_token("/mcp").await;
    // the handler behind the gate refuses a request that still has one, and answers with its address
    let answer = knock(&authority, "/mcp", Some(&format!("Bearer {token}"))).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "ada /mcp /mcp"));
    let answer = knock(&authority, &format!("/sse?api_key={}", authority.key.expose()), None).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "ada /sse /sse"));
}
