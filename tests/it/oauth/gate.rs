//! The gate in front of the protected endpoints.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::OriginalUri, routing::any};
use http::{HeaderMap, Request, StatusCode, Uri};
use insta::assert_snapshot;
use lockkeeper::{
    model::{AllowedNetworks, AuthPolicy, Direct, NewKey, ParentAudience, QueryKey, Rights, UserId},
    resource::{Authorized, Gate, GateSettings, MessageTicket, protect_administration},
    support::{Clock as _, Live},
};

use crate::support::{
    http::{Serve, protected},
    oauth::{Answer, Authority, HOME, send},
};

/// A handler behind the gate that returns the caller and the URI.
fn gated(authority: &Authority) -> impl Serve {
    let who = async |Extension(admission): Extension<Authorized>,
                     headers: HeaderMap,
                     uri: Uri,
                     original: Option<Extension<OriginalUri>>| {
        assert!(uri.path().starts_with("/api") || !headers.contains_key("authorization"), "OA-117");
        let original = original.map(|Extension(OriginalUri(uri))| uri.to_string()).unwrap_or_default();
        format!("{} {uri} {original}", admission.caller.user)
    };
    let paths = ["/mcp", "/mcp/", "/mcp/{backend}", "/mcp/{backend}/", "/sse", "/sse/{backend}", "/messages"];
    let router = paths.iter().fold(Router::new(), |router, path| router.route(path, any(who)));
    let gate = Gate::new(authority.oauth.clone(), GateSettings { query_key: QueryKey::Accepted });
    // discovery is not behind it, as in the gateway
    let administration = protect_administration(Router::new().route("/api/status", any(who)), gate.clone());
    protected(gate, router, authority.router.clone().merge(administration))
}

/// A request to `/mcp` with this header alone.
pub(super) async fn knock_with(authority: &Authority, name: &str, value: &str) -> Answer {
    send(&gated(authority), Request::post("/mcp").header(name, value).body(Body::empty()).unwrap()).await
}

pub(super) async fn knock(authority: &Authority, uri: &str, authorization: Option<&str>) -> Answer {
    let request = Request::post(uri);
    let request = match authorization {
        Some(value) => request.header("authorization", value),
        None => request,
    };
    send(&gated(authority), request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn oa_107_a_request_without_a_credential_gets_the_metadata_url() {
    let authority = Authority::new().await;
    let answer = knock(&authority, "/mcp", None).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_snapshot!(answer.header("www-authenticate").unwrap(), @r#"Bearer scope="mcp:use", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp""#);
    // N-10
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));
    let answer = knock(&authority, "/mcp/git/", None).await;
    assert_snapshot!(answer.header("www-authenticate").unwrap(), @r#"Bearer scope="mcp:git", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp/git""#);
    // N-104: another scheme is no credential; N-107, N-115: neither are forms and cookies
    for scheme in ["Basic dTpw", "DPoP abc"] {
        let answer = knock(&authority, "/mcp", Some(scheme)).await;
        assert!(!answer.header("www-authenticate").unwrap().contains("error"));
    }
    let other = Request::post("/mcp?access_token=x").header("cookie", "token=x").body(Body::from("access_token=x"));
    assert_eq!(send(&gated(&authority), other.unwrap()).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn oa_111_a_wrong_token_is_refused_the_same_way_each_time() {
    // N-105, OA-111
    let authority = Authority::new().await;
    let first = knock(&authority, "/mcp", Some("Bearer garbage")).await;
    assert_snapshot!(first.header("www-authenticate").unwrap(), @r#"Bearer error="invalid_token", scope="mcp:use", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp", error_description="the credential is unknown, ended, revoked, for another endpoint, or a key without --direct; authorize again""#);
    let second = knock(&authority, "/mcp", Some("Bearer in valid")).await;
    assert_eq!(first.header("www-authenticate"), second.header("www-authenticate"));
    let twice = Request::post("/mcp").header("authorization", "Bearer a").header("authorization", "Bearer b");
    let answer = send(&gated(&authority), twice.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.error(), "400 invalid_request");
}

#[tokio::test]
async fn oa_114_a_token_opens_its_own_endpoint_and_the_stream_of_the_same_servers() {
    // OA-114
    let authority = Authority::new().await;
    for own in ["/mcp", "/mcp/git", "/sse", "/sse/time"] {
        let token = format!("bEaReR {}", authority.access_token(own).await);
        for path in ["/mcp", "/mcp/git", "/mcp/time", "/sse", "/sse/git", "/sse/time", "/ws"] {
            let expected = if path == own || path == own.replace("/mcp", "/sse") { 200 } else { 401 };
            let answer = knock(&authority, path, Some(&token)).await;
            assert_eq!(answer.status.as_u16(), expected, "{own} {path}");
        }
        // which messages it may post depends on the session
        assert_eq!(knock(&authority, "/messages?session_id=1", Some(&token)).await.status.as_u16(), 200);
    }
}

#[tokio::test]
async fn oa_114_a_token_for_mcp_opens_what_is_below_if_the_operator_says_so() {
    let mut settings = Authority::settings();
    settings.policy = Live::new(AuthPolicy { aud_parent_ok: ParentAudience::Accepted, ..AuthPolicy::default() });
    let authority = Authority::with(settings).await;
    let status =
        async |path: &str, token: &str| knock(&authority, path, Some(&format!("Bearer {token}"))).await.status.as_u16();
    let merged = authority.access_token("/mcp").await;
    for (path, expected) in [("/mcp", 200), ("/mcp/git", 200), ("/mcp/time/", 200), ("/sse", 200), ("/sse/git", 200)] {
        assert_eq!(status(path, &merged).await, expected, "{path}");
    }
    for (own, path) in
        [("/mcp/git", "/mcp"), ("/mcp/git", "/sse"), ("/mcp/git", "/mcp/time"), ("/sse", "/sse/git"), ("/sse", "/mcp")]
    {
        let token = authority.access_token(own).await;
        assert_eq!((status(own, &token).await, status(path, &token).await), (200, 401), "{own} {path}");
    }
    // its scopes hold there too
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[("scope", "mcp:time")])).await;
    let token = authority.redeem(&client, &code).await.json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(status("/mcp/time", &token).await, 200);
    let refused = knock(&authority, "/mcp/git", Some(&format!("Bearer {token}"))).await;
    // and what they leave out does not exist (OA-158)
    assert_eq!((refused.error().as_str(), refused.header("www-authenticate")), ("404 not_found", None));
    let unknown = knock(&authority, "/mcp/nobody", Some(&format!("Bearer {token}"))).await;
    assert_eq!((unknown.status, unknown.body), (refused.status, refused.body));
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_with_its_grant() {
    let authority = Authority::new().await;
    let token = format!("Bearer {}", authority.access_token("/mcp").await);
    assert_eq!(knock(&authority, "/mcp", Some(&token)).await.body, "ada /mcp /mcp");
    authority.clock.advance(Duration::from_hours(1));
    assert_eq!(knock(&authority, "/mcp", Some(&token)).await.error(), "401 invalid_token");
    let token = format!("Bearer {}", authority.access_token("/mcp").await);
    assert_eq!(knock(&authority, "/mcp", Some(&token)).await.status, StatusCode::OK);
    assert_eq!(authority.oauth.grants().revoke_all(&authority.holder.user).await.unwrap(), 2);
    assert_eq!(knock(&authority, "/mcp", Some(&token)).await.error(), "401 invalid_token");
}

#[tokio::test]
async fn a_cached_credential_needs_no_database() {
    // design rule 12
    let storage = crate::support::empty_storage().await;
    let authority = Authority::on(storage.clone(), Authority::settings(), 1).await;
    let token = format!("Bearer {}", authority.access_token("/mcp").await);
    let key = format!("Bearer {}", authority.key.expose());
    let office = NewKey {
        name: "office".to_owned(),
        user: None,
        rights: Rights::all_backends(),
        direct: Direct::Allowed,
        expires: None,
        networks: "127.0.0.0/8".parse().unwrap(),
    };
    let office = format!("Bearer {}", authority.oauth.keys().create(office).await.unwrap().1.expose());
    for credential in [&token, &key, &office] {
        assert_eq!(knock(&authority, "/mcp", Some(credential)).await.status, StatusCode::OK);
    }
    authority.clock.advance(Duration::from_mins(2));
    knock(&authority, "/mcp", Some(&token)).await;
    authority.oauth.sync().await.unwrap();
    let grant = &authority.oauth.grants().list().await.unwrap()[0].grant;
    assert_eq!(grant.last_used.unwrap().since(grant.created), Duration::from_mins(2));
    storage.close().await;
    for credential in [&token, &key, &office] {
        assert_eq!(knock(&authority, "/mcp", Some(credential)).await.status, StatusCode::OK);
    }
    let other = format!("Bearer {}", authority.key.expose().replace("lkk_", "lkk_x"));
    assert_eq!(knock(&authority, "/sse", Some(&other)).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn oa_129_an_access_token_can_be_revoked_by_itself() {
    // OA-129
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let token = tokens["access_token"].as_str().unwrap();
    let bearer = format!("Bearer {token}");
    assert_eq!(knock(&authority, "/mcp", Some(&bearer)).await.status, StatusCode::OK);
    authority.form("/oauth/revoke", &[("client_id", &client), ("token", token)]).await;
    assert_eq!(knock(&authority, "/mcp", Some(&bearer)).await.error(), "401 invalid_token");
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await.json();
    let bearer = format!("Bearer {}", refreshed["access_token"].as_str().unwrap());
    assert_eq!(knock(&authority, "/mcp", Some(&bearer)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn n_121_a_key_opens_sse_by_header_or_query_and_leaves_no_trace() {
    // N-118
    let authority = Authority::new().await;
    let key = authority.key.expose();
    let answer = knock(&authority, &format!("/sse?api_key={key}&x=1"), None).await;
    assert_eq!(answer.body, "ada /sse?x=1 /sse?x=1");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert!(answer.header("deprecation").is_some());
    let bearer = format!("Bearer {key}");
    assert_eq!(knock(&authority, "/sse/git", Some(&bearer)).await.status, StatusCode::OK);
    assert_eq!(knock(&authority, "/messages?session_id=1", Some(&bearer)).await.status, StatusCode::OK);
    // N-120
    let token = authority.access_token("/sse").await;
    let both = knock(&authority, &format!("/sse?api_key={key}"), Some(&format!("Bearer {token}"))).await;
    assert_eq!(both.error(), "400 invalid_request");
    // N-121
    let answer = knock(&authority, &format!("/sse?api_key={token}"), None).await;
    assert_eq!(answer.error(), "401 unauthorized");
    // only there
    let answer = knock(&authority, &format!("/mcp?api_key={key}"), None).await;
    assert_eq!(answer.error(), "401 unauthorized");
}

/// Streams at `/sse` that stay open as long as their ticket, and a handler that returns the sender at `/messages`.
fn ticketed(authority: &Authority) -> (impl Serve, Arc<Mutex<Option<Arc<MessageTicket>>>>) {
    let open = Arc::new(Mutex::new(None));
    let stream = {
        let open = Arc::clone(&open);
        async move |Extension(ticket): Extension<Arc<MessageTicket>>| {
            let shown = ticket.parameter();
            *open.lock().unwrap() = Some(ticket);
            shown
        }
    };
    let who = async |Extension(admission): Extension<Authorized>, uri: Uri| format!("{} {uri}", admission.caller.user);
    let router = Router::new().route("/sse", any(stream)).route("/messages", any(who)).route("/mcp", any(who));
    let gate = Gate::new(authority.oauth.clone(), GateSettings { query_key: QueryKey::Accepted });
    (protected(gate, router, Router::new()), open)
}

#[tokio::test]
async fn oa_122_a_stream_opened_with_a_key_in_the_query_has_a_ticket_for_its_messages_while_it_is_open() {
    // OA-122: clients drop the query of `/sse` when they post to `/messages`
    let authority = Authority::new().await;
    let (router, open) = ticketed(&authority);
    let post = async |uri: String| send(&router, Request::post(uri).body(Body::empty()).unwrap()).await;

    let key = authority.key.expose();
    let ticket = post(format!("/sse?api_key={key}")).await.body;
    assert!(ticket.len() >= 43 && !ticket.contains(key), "{ticket}");
    let answer = post(format!("/messages?session_id=1&{ticket}")).await;
    assert_eq!(answer.body, "ada /messages?session_id=1");
    // it is only for messages, and no other ticket works
    assert_eq!(post(format!("/mcp?{ticket}")).await.error(), "401 unauthorized");
    assert_eq!(post(format!("/sse?{ticket}")).await.error(), "401 unauthorized");
    assert_eq!(post(format!("/messages?session_id=1&ticket={key}")).await.error(), "404 not_found");

    open.lock().unwrap().take();
    let ended = post(format!("/messages?session_id=1&{ticket}")).await;
    assert_eq!(ended.error(), "404 not_found");
    assert!(ended.body.contains("open /sse again"), "{}", ended.body);
    // a wrong credential in a header is one, whatever the address has
    let wrong = Request::post(format!("/messages?session_id=1&{ticket}")).header("authorization", "Bearer x");
    assert_eq!(send(&router, wrong.body(Body::empty()).unwrap()).await.error(), "401 invalid_token");
}

#[tokio::test]
async fn oa_128_a_ticket_ends_with_the_key_that_it_stands_for() {
    // OA-122, OA-128
    let authority = Authority::new().await;
    let (router, open) = ticketed(&authority);
    let post = async |uri: String| send(&router, Request::post(uri).body(Body::empty()).unwrap()).await;
    let key = async |expires| {
        let (name, user) = ("old client".to_owned(), Some(UserId::new("ada")));
        let new = NewKey {
            name,
            user,
            rights: Rights::all_backends(),
            direct: Direct::Refused,
            expires,
            networks: AllowedNetworks::default(),
        };
        authority.oauth.keys().create(new).await.unwrap()
    };

    // by its expiry: the connection stays open then, as long as its reader
    let (_, short) = key(Some(authority.clock.now() + Duration::from_mins(1))).await;
    let ticket = post(format!("/sse?api_key={}", short.expose())).await.body;
    assert_eq!(post(format!("/messages?session_id=1&{ticket}")).await.status, StatusCode::OK);
    authority.clock.advance(Duration::from_mins(1));
    assert!(open.lock().unwrap().is_some());
    assert_eq!(post(format!("/messages?session_id=1&{ticket}")).await.error(), "401 invalid_token");

    // and by its revocation, which ends the stream too
    let (made, long) = key(None).await;
    let ticket = post(format!("/sse?api_key={}", long.expose())).await.body;
    assert_eq!(post(format!("/messages?session_id=1&{ticket}")).await.status, StatusCode::OK);
    let lease = authority.oauth.verify(long.expose(), HOME).await.unwrap();
    authority.oauth.keys().revoke(&made.id).await.unwrap();
    assert!(open.lock().unwrap().is_some() && lease.revoked.is_cancelled());
    assert_eq!(post(format!("/messages?session_id=1&{ticket}")).await.error(), "401 invalid_token");
}

#[tokio::test]
async fn oa_118_a_key_opens_mcp_only_if_direct_use_is_allowed() {
    // OA-118
    let authority = Authority::new().await;
    let bearer = format!("Bearer {}", authority.key.expose());
    assert_eq!(knock(&authority, "/mcp/git", Some(&bearer)).await.status, StatusCode::OK);
    let (user, rights) = (Some(UserId::new("ada")), Rights::all_backends());
    let new = NewKey {
        name: "login".to_owned(),
        user,
        rights,
        direct: Direct::Refused,
        expires: None,
        networks: AllowedNetworks::default(),
    };
    let (key, secret) = authority.oauth.keys().create(new).await.unwrap();
    let bearer = format!("Bearer {}", secret.expose());
    assert_eq!(knock(&authority, "/mcp", Some(&bearer)).await.error(), "401 invalid_token");
    assert_eq!(knock(&authority, "/sse", Some(&bearer)).await.status, StatusCode::OK);
    assert!(authority.oauth.keys().revoke(&key.id).await.unwrap());
    assert_eq!(knock(&authority, "/sse", Some(&bearer)).await.error(), "401 invalid_token");
}

#[tokio::test]
async fn oa_110_a_key_without_the_right_is_refused_without_naming_a_scope() {
    // OA-110
    let authority = Authority::new().await;
    let (key, _) = Authority::key(&authority.oauth, "eve", Rights::none()).await;
    let answer = knock(&authority, "/mcp/git", Some(&format!("Bearer {}", key.expose()))).await;
    assert_eq!((answer.error().as_str(), answer.header("www-authenticate")), ("403 access_denied", None));
}

#[tokio::test]
async fn n_110_administration_needs_its_scope() {
    // N-110
    let authority = Authority::new().await;
    let bearer = format!("Bearer {}", authority.access_token("/mcp").await);
    let answer = knock(&authority, "/api/status", Some(&bearer)).await;
    assert_snapshot!(answer.header("www-authenticate").unwrap(), @r#"Bearer error="insufficient_scope", scope="mcp:use mcp:admin", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp", error_description="the access token lacks a scope that this needs""#);
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let admin = Rights { admin: true, ..Rights::all_backends() };
    let (key, _) = Authority::key(&authority.oauth, "grace", admin).await;
    let bearer = format!("Bearer {}", key.expose());
    assert_eq!(knock(&authority, "/api/status", Some(&bearer)).await.status, StatusCode::OK);
    let bearer = format!("Bearer {}", authority.key.expose());
    assert_eq!(knock(&authority, "/api/status", Some(&bearer)).await.error(), "403 access_denied");
    // OA-118: a key for the login page is no bearer here either, whatever its rights
    let (name, user) = ("login".to_owned(), Some(UserId::new("grace")));
    let rights = Rights { admin: true, ..Rights::all_backends() };
    let new =
        NewKey { name, user, rights, direct: Direct::Refused, expires: None, networks: AllowedNetworks::default() };
    let (_, login) = authority.oauth.keys().create(new).await.unwrap();
    let bearer = format!("Bearer {}", login.expose());
    assert_eq!(knock(&authority, "/api/status", Some(&bearer)).await.error(), "401 invalid_token");
    assert_eq!(knock(&authority, "/api/status", None).await.error(), "401 unauthorized");
}

#[tokio::test]
async fn n_005_a_preflight_passes_without_a_credential() {
    // N-5
    let authority = Authority::new().await;
    let request = Request::options("/mcp").body(Body::empty()).unwrap();
    let answer = send(&gated(&authority), request).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert!(answer.header("access-control-allow-headers").unwrap().contains("Authorization"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("DELETE"));
}

#[tokio::test]
async fn guessing_keys_is_slowed_down() {
    let authority = Authority::new().await;
    for _ in 0..10 {
        assert_eq!(knock(&authority, "/sse?api_key=lkk_guess", None).await.error(), "401 invalid_token");
    }
    let answer = knock(&authority, "/sse?api_key=lkk_guess", None).await;
    assert_eq!(answer.error(), "429 temporarily_unavailable");
    assert!(answer.header("retry-after").is_some());
    // tokens are no keys, and are not rate-limited
    let bearer = format!("Bearer {}", authority.access_token("/mcp").await);
    assert_eq!(knock(&authority, "/mcp", Some(&bearer)).await.status, StatusCode::OK);
}
