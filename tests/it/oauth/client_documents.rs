//! Clients whose id is the URL of their metadata document, in an internet of their own.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use lockkeeper::{
    model::{AuthPolicy, ClientDocumentPolicy, ClientId, ClientIp, DocumentTrust},
    oauth::{
        AuthorizationError, BeginOutcome, DeviceRefusal, MasterKeySource, OAuthSettings, RequestSource, ServerChoice,
        UserCode,
    },
    support::{Live, Secret},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{
    internet::{Internet, json_response},
    oauth::{Authority, CALLBACK, FROM, HOME, approve, browser, parameter},
};

/// The id of the tests' client.
const APP: &str = "https://app.example/client.json";

/// A gateway and an internet in which <https://app.example> describes clients.
struct World {
    internet: Internet,
    authority: Authority,
    document: Arc<Mutex<Value>>,
    headers: Arc<Mutex<&'static str>>,
}

impl World {
    async fn new() -> Self {
        Self::with(ClientDocumentPolicy::default()).await
    }

    async fn with(policy: ClientDocumentPolicy) -> Self {
        let internet = internet();
        let mut settings = settings(&internet);
        settings.policy = Live::new(AuthPolicy { client_documents: policy, ..AuthPolicy::default() });
        let authority = Authority::with(settings).await;
        Self::around(internet, authority)
    }

    fn around(internet: Internet, authority: Authority) -> Self {
        let (document, headers) = (Arc::new(Mutex::new(document())), Arc::<Mutex<&'static str>>::default());
        let (body, lines) = (Arc::clone(&document), Arc::clone(&headers));
        internet.host("1.1.1.1", move |_| json_response(&lines.lock(), &body.lock()));
        Self { internet, authority, document, headers }
    }

    async fn begin(&self, client: &str) -> BeginOutcome {
        let query = Authority::query(client, &[]);
        self.authority.oauth.authorization().begin(&query, FROM).await
    }

    /// The page with which the gateway refuses this client.
    async fn page(&self, client: &str) -> AuthorizationError {
        match self.begin(client).await {
            BeginOutcome::Page(error) => error,
            other => panic!("{client}: {other:?}"),
        }
    }

    /// The page for a document that is answered with this text.
    async fn page_for_answer(&self, answer: impl Into<String>) -> AuthorizationError {
        let answer = answer.into();
        self.internet.host("1.1.1.1", move |_| answer.clone());
        self.page(APP).await
    }

    /// The page for the document with other members; `null` removes one.
    async fn page_with(&self, members: Value) -> AuthorizationError {
        self.authority.clock.advance(Duration::from_hours(1));
        *self.document.lock() = changed(members);
        self.page(APP).await
    }

    /// The tokens of a new consent to the client.
    async fn tokens(&self) -> Value {
        let code = self.authority.code(&Authority::query(APP, &[])).await;
        let answer = self.authority.redeem(APP, &code).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.json()
    }

    async fn refresh(&self, tokens: &Value) -> crate::support::oauth::Answer {
        self.authority.refresh(APP, tokens["refresh_token"].as_str().unwrap()).await
    }

    fn requests(&self) -> usize {
        self.internet.seen().requests.len()
    }
}

fn internet() -> Internet {
    let internet = Internet::new();
    internet.name("app.example", &[&["1.1.1.1"]]);
    internet
}

fn settings(internet: &Internet) -> OAuthSettings {
    OAuthSettings { fetcher: Some(internet.fetcher()), ..Authority::settings() }
}

fn document() -> Value {
    json!({ "client_id": APP, "client_name": "The app", "redirect_uris": [CALLBACK] })
}

fn changed(members: Value) -> Value {
    let mut document = document();
    let Value::Object(members) = members else { panic!("no members") };
    document.as_object_mut().unwrap().extend(members);
    document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    document
}

/// A page that says no more than the host.
fn assert_told_host(page: &AuthorizationError) {
    assert_eq!((page.status, page.error), (400, "invalid_client"));
    assert!(page.description.contains("app.example"), "{}", page.description);
    for secret in ["1.1.1.1", "10.0", "address", "TLS", "resolve", "jwks", "302"] {
        assert!(!page.description.contains(secret), "{}", page.description);
    }
}

#[tokio::test]
async fn oa_011_documents_are_announced_only_while_they_are_read() {
    let flag = async |authority: &Authority| {
        let metadata = authority.get("/.well-known/oauth-authorization-server").await.json();
        metadata.get("client_id_metadata_document_supported").cloned()
    };
    assert_eq!(flag(&World::new().await.authority).await, Some(json!(true)));
    assert_eq!(flag(&Authority::new().await).await, None, "nothing can be requested");
    let off = ClientDocumentPolicy { trust: DocumentTrust::Off, denied: Vec::new() };
    assert_eq!(flag(&World::with(off).await.authority).await, None);
}

#[tokio::test]
async fn oa_045_a_client_that_a_document_describes_gets_its_tokens() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    assert_eq!(world.requests(), 1);
    let answer = world.refresh(&tokens).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let client = &world.authority.oauth.clients().list().await.unwrap()[0];
    assert_eq!((client.id.as_str(), client.name.as_str()), (APP, "The app"));
    let revoked = world.authority.form("/oauth/revoke", &[("client_id", APP), ("token", "x")]).await;
    assert_eq!(revoked.status, StatusCode::OK);
}

#[tokio::test]
async fn oa_045_nothing_is_stored_before_a_consent_and_such_a_client_is_unknown_to_the_token_endpoint() {
    let world = World::new().await;
    assert!(matches!(world.begin(APP).await, BeginOutcome::Valid(_)));
    assert!(world.authority.oauth.clients().list().await.unwrap().is_empty());
    let answer = world.authority.refresh(APP, "lkr_x").await;
    assert_eq!(answer.error(), "401 invalid_client");
    assert_eq!(world.authority.refresh("https://app.example/other", "lkr_x").await.error(), "401 invalid_client");
    assert_eq!(world.requests(), 1, "the token endpoint reads nothing for strangers");
}

#[tokio::test]
async fn oa_046_the_request_is_plain_and_small() {
    let world = World::new().await;
    world.begin(APP).await;
    let request = &world.internet.seen().requests[0];
    assert!(request.starts_with("GET /client.json HTTP/1.1\r\naccept: application/json\r\nhost: app.example\r\n"));
    assert!(!request.to_lowercase().contains("cookie"));
    for status in ["201 Created", "204 No Content", "404 Not Found", "500 Internal Server Error"] {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        world.authority.clock.advance(Duration::from_hours(1));
        assert_told_host(&world.page_for_answer(answer).await);
    }
}

#[tokio::test]
async fn n_030_an_http_url_is_no_client() {
    let world = World::new().await;
    let page = world.page("http://app.example/client.json").await;
    assert_eq!((page.status, page.error), (400, "invalid_client"));
    assert!(world.internet.seen().lookups.is_empty());
}

#[tokio::test]
async fn n_031_a_malformed_url_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    for id in [
        "https://app.example",
        "https://app.example/",
        "https://app.example/a/../b",
        "https://app.example/%2e%2e/b",
        "https://app.example/x#f",
        "https://u:p@app.example/x",
        "https://app.example/x?y",
    ] {
        let page = world.page(id).await;
        assert_eq!((page.status, page.error), (400, "invalid_client"), "{id}");
    }
    assert!(world.internet.seen().lookups.is_empty());
}

#[tokio::test]
async fn n_032_a_host_inside_this_network_is_not_told_from_one_that_is_down() {
    let world = World::new().await;
    let mut pages = Vec::new();
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "1.2.3.4"] {
        world.internet.name("app.example", &[&[address]]);
        pages.push(world.page(APP).await);
        assert_told_host(pages.last().unwrap());
    }
    assert!(pages.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(world.internet.seen().connections, ["1.2.3.4:443".parse().unwrap()]);
}

#[tokio::test]
async fn n_034_a_host_that_changes_its_address_is_reached_at_the_first() {
    let world = World::new().await;
    world.internet.name("app.example", &[&["1.1.1.1"], &["127.0.0.1"]]);
    assert!(matches!(world.begin(APP).await, BeginOutcome::Valid(_)));
    assert_eq!(world.internet.seen().connections, ["1.1.1.1:443".parse().unwrap()]);
}

#[tokio::test]
async fn n_035_a_document_that_redirects_is_refused() {
    let world = World::new().await;
    let answer = "HTTP/1.1 302 Found\r\nlocation: https://app.example/elsewhere.json\r\ncontent-length: 0\r\n\r\n";
    assert_told_host(&world.page_for_answer(answer).await);
    assert_eq!(world.requests(), 1);
}

#[tokio::test]
async fn n_037_a_document_over_5_kib_is_refused() {
    let world = World::new().await;
    let body = changed(json!({ "x": "x".repeat(6 * 1024) }));
    assert_told_host(&world.page_for_answer(json_response("", &body)).await);
    assert_told_host(&world.page_for_answer(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await);
}

#[tokio::test]
async fn n_038_a_document_that_drips_is_refused_after_5_seconds() {
    let world = World::new().await;
    // what the store does takes real time: the clock stands still from the answer on
    world.internet.dripping_host("1.1.1.1", tokio::time::pause);
    let start = tokio::time::Instant::now();
    assert_told_host(&world.page(APP).await);
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn n_040_a_document_without_a_name_or_redirect_uris_is_refused() {
    let world = World::new().await;
    for members in [
        json!({ "client_name": null }),
        json!({ "client_name": "\u{202e} " }),
        json!({ "client_name": 1 }),
        json!({ "redirect_uris": null }),
        json!({ "redirect_uris": [] }),
        json!({ "redirect_uris": [CALLBACK, "http://evil.example/cb"] }),
    ] {
        assert_told_host(&world.page_with(members).await);
    }
}

#[tokio::test]
async fn oa_048_a_document_names_itself_and_has_no_secrets() {
    let world = World::new().await;
    for members in [
        json!({ "client_id": null }),
        json!({ "client_id": "https://app.example/other.json" }),
        json!({ "client_id": "https://APP.example/client.json" }),
        json!({ "client_secret": "x" }),
        json!({ "client_secret_expires_at": 0 }),
        json!({ "jwks": { "keys": [{ "kty": "EC", "d": "x" }] } }),
        json!({ "jwks": { "keys": [] }, "jwks_uri": "https://app.example/jwks" }),
        json!({ "jwks_uri": "http://app.example/jwks" }),
        json!({ "response_types": ["token"] }),
        json!({ "grant_types": ["client_credentials"] }),
    ] {
        assert_told_host(&world.page_with(members).await);
    }
    for body in ["[]", "not json", "\"text\"", ""] {
        world.authority.clock.advance(Duration::from_hours(1));
        assert_told_host(&world.page_for_answer(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await);
    }
}

#[tokio::test]
async fn n_041_a_client_with_a_shared_secret_alone_is_refused() {
    let world = World::new().await;
    for members in [
        json!({ "token_endpoint_auth_method": "client_secret_post" }),
        json!({ "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"] }),
    ] {
        assert_told_host(&world.page_with(members).await);
    }
}

#[tokio::test]
async fn n_042_a_client_that_offers_none_beside_its_keys_is_public_and_needs_pkce() {
    // as ChatGPT describes itself
    let world = World::new().await;
    *world.document.lock() = changed(json!({
        "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://app.example/jwks",
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    }));
    assert!(world.tokens().await["refresh_token"].is_string());
    let begun = world.authority.oauth.authorization();
    let begun = begun.begin(&Authority::query(APP, &[("code_challenge", "")]), FROM).await;
    let BeginOutcome::Redirect(redirect) = begun else { panic!("{begun:?}") };
    assert_eq!(parameter(&redirect.location, "error").as_deref(), Some("invalid_request"));
}

#[tokio::test]
async fn oa_049_the_method_is_the_first_that_is_supported() {
    let world = World::new().await;
    let ok = async |members: Value| {
        world.authority.clock.advance(Duration::from_hours(1));
        *world.document.lock() = changed(members);
        matches!(world.begin(APP).await, BeginOutcome::Valid(_))
    };
    assert!(ok(json!({ "token_endpoint_auth_method": "none" })).await);
    assert!(ok(json!({ "token_endpoint_auth_methods_supported": ["tls_client_auth", "none"] })).await);
    let contradiction = json!({
        "token_endpoint_auth_method": "none", "token_endpoint_auth_methods_supported": ["private_key_jwt"]
    });
    assert!(!ok(contradiction).await);
}

#[tokio::test]
async fn oa_050_further_grant_and_response_types_are_ignored() {
    let world = World::new().await;
    *world.document.lock() = changed(json!({
        "grant_types": ["urn:x", "authorization_code", "implicit"], "response_types": ["code", "id_token"]
    }));
    let tokens = world.tokens().await;
    assert_eq!(tokens.get("refresh_token"), None, "the client has no use for one");
}

#[tokio::test]
async fn oa_051_a_document_is_read_again_when_its_time_is_over_and_confirmed_by_its_tag() {
    let world = World::new().await;
    *world.headers.lock() = "cache-control: max-age=600\r\netag: \"one\"\r\n";
    world.begin(APP).await;
    world.authority.clock.advance(Duration::from_secs(599));
    world.begin(APP).await;
    assert_eq!(world.requests(), 1);
    world.internet.host("1.1.1.1", |request| {
        assert!(request.contains("if-none-match: \"one\"\r\n"), "{request}");
        "HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\n\r\n".to_owned()
    });
    for (seconds, requests) in [(1, 2), (59, 2), (1, 3)] {
        world.authority.clock.advance(Duration::from_secs(seconds));
        assert!(matches!(world.begin(APP).await, BeginOutcome::Valid(_)));
        assert_eq!(world.requests(), requests);
    }
}

#[tokio::test]
async fn oa_051_failures_and_invalid_documents_are_not_kept() {
    let world = World::new().await;
    *world.document.lock() = json!({});
    assert_told_host(&world.page(APP).await);
    *world.document.lock() = document();
    assert!(matches!(world.begin(APP).await, BeginOutcome::Valid(_)));
}

#[tokio::test]
async fn oa_051_requests_at_once_for_one_document_share_one_reading() {
    let world = World::new().await;
    let begun = futures_util::future::join_all((0..100).map(|_| world.begin(APP))).await;
    assert!(begun.iter().all(|begun| matches!(begun, BeginOutcome::Valid(_))));
    assert_eq!(world.requests(), 1);
}

#[tokio::test]
async fn oa_051_a_host_that_is_down_for_a_day_ends_no_login() {
    let (storage, internet) = (crate::support::empty_storage().await, internet());
    let mut settings = settings(&internet);
    settings.master_key = MasterKeySource::Given(Secret::new("A".repeat(43)));
    let authority = Authority::on(storage.clone(), settings.clone(), 1).await;
    let world = World::around(internet, authority);
    let tokens = world.tokens().await;

    // another process, so the copy is the one in the database
    let authority = Authority::on(storage, settings, 2).await;
    let world = World { authority, ..world };
    world.internet.host("1.1.1.1", |_| "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned());
    world.authority.clock.advance(Duration::from_hours(23));
    let refreshed = world.refresh(&tokens).await;
    assert_eq!(refreshed.status, StatusCode::OK, "{}", refreshed.body);
    let requests = world.requests();
    assert_eq!(world.refresh(&tokens).await.status, StatusCode::OK, "within the grace period");
    assert_eq!(world.requests(), requests, "a host that is down is asked once a minute");
    // somebody who begins a login is not served from the copy
    assert_told_host(&world.page(APP).await);

    world.authority.clock.advance(Duration::from_hours(2));
    assert_eq!(world.refresh(&refreshed.json()).await.error(), "401 invalid_client");
    // the grant is unharmed
    world.internet.host("1.1.1.1", |_| json_response("", &document()));
    assert_eq!(world.refresh(&refreshed.json()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn oa_052_a_change_of_what_was_consented_to_voids_the_consent() {
    for members in [
        json!({ "client_name": "Another app" }),
        json!({ "redirect_uris": [CALLBACK, "https://app.example/cb"] }),
        json!({ "jwks_uri": "https://app.example/jwks" }),
    ] {
        let world = World::new().await;
        let tokens = world.tokens().await;
        *world.document.lock() = changed(json!({ "contacts": ["a@app.example"], "logo_uri": "https://app.example/l" }));
        world.authority.clock.advance(Duration::from_mins(5));
        let refreshed = world.refresh(&tokens).await;
        assert_eq!(refreshed.status, StatusCode::OK, "other members may change: {}", refreshed.body);
        *world.document.lock() = changed(members);
        world.authority.clock.advance(Duration::from_mins(5));
        assert_eq!(world.refresh(&refreshed.json()).await.error(), "400 invalid_grant");
        assert!(world.authority.oauth.grants().list().await.unwrap().is_empty());
        world.tokens().await;
    }
}

#[tokio::test]
async fn oa_052_a_person_decides_about_what_was_shown() {
    let world = World::new().await;
    let id = world.authority.waiting(&Authority::query(APP, &[])).await;
    *world.document.lock() = changed(json!({ "client_name": "Another app" }));
    world.authority.clock.advance(Duration::from_mins(5));
    let refused = approve(&world.authority.oauth, &id, &browser("a"), &world.authority.holder).await.unwrap_err();
    assert_eq!((refused.status, refused.error), (400, "invalid_client"));
    assert!(world.authority.oauth.clients().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn oa_053_a_failure_at_the_token_endpoint_is_invalid_client() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    world.authority.clock.advance(Duration::from_hours(25));
    *world.document.lock() = json!({});
    assert_eq!(world.refresh(&tokens).await.error(), "401 invalid_client");
}

#[tokio::test]
async fn oa_054_hosts_that_the_operator_does_not_trust_are_not_asked() {
    let listed = |host: &str| DocumentTrust::Listed(vec![host.to_owned()]);
    let denied = ClientDocumentPolicy { trust: listed("app.example"), denied: vec!["example".to_owned()] };
    let other = ClientDocumentPolicy { trust: listed("other.example"), denied: Vec::new() };
    let off = ClientDocumentPolicy { trust: DocumentTrust::Off, denied: Vec::new() };
    for policy in [denied, other, off] {
        let world = World::with(policy).await;
        let page = world.page(APP).await;
        assert_eq!((page.status, page.error), (400, "invalid_client"));
        assert!(world.internet.seen().lookups.is_empty());
    }
    let own = ClientDocumentPolicy { trust: listed("app.example"), denied: Vec::new() };
    assert!(matches!(World::with(own).await.begin(APP).await, BeginOutcome::Valid(_)));
}

#[tokio::test]
async fn n_044_a_network_that_tries_many_urls_is_limited_before_anything_is_sent() {
    let world = World::new().await;
    let mut pages = Vec::new();
    for number in 0..1000 {
        pages.push(world.page(&format!("https://app.example/{number}.json")).await);
    }
    assert_eq!(world.requests(), 30);
    assert!(pages[..30].iter().all(|page| page.status == 400));
    assert!(pages[30..].iter().all(|page| page.status == 429 && page.retry_after == Some(Duration::from_secs(10))));
    let elsewhere = RequestSource { from: ClientIp("192.0.2.9".parse().unwrap()), holder: None };
    let begun = world.authority.oauth.authorization().begin(&Authority::query(APP, &[]), elsewhere).await;
    assert!(matches!(begun, BeginOutcome::Valid(_)), "{begun:?}");
}

#[tokio::test]
async fn oa_054_a_client_that_the_operator_revoked_stays_out() {
    let world = World::new().await;
    let tokens = world.tokens().await;
    assert!(world.authority.oauth.clients().revoke(&ClientId::new(APP)).await.unwrap());
    assert_eq!(world.refresh(&tokens).await.error(), "401 invalid_client");
    assert_told_host(&world.page(APP).await);
    assert!(world.authority.oauth.clients().restore(&ClientId::new(APP)).await.unwrap());
    world.tokens().await;
}

#[tokio::test]
async fn oa_056_claude_code_and_opencode_use_any_port_of_their_documents() {
    // the documents name no port, the requests have one
    let world = World::new().await;
    *world.document.lock() = changed(json!({
        "client_name": "Claude Code", "client_uri": "https://app.example", "token_endpoint_auth_method": "none",
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    }));
    for uri in ["http://localhost:51234/callback", "http://127.0.0.1:19876/callback"] {
        let changes = [("redirect_uri", uri), ("scope", ""), ("resource", "https://gw.example/")];
        let approved = world.authority.approve(&Authority::query(APP, &changes)).await;
        assert!(approved.location.starts_with(&format!("{uri}?code=")), "{}", approved.location);
    }
    let query = Authority::query(APP, &[("redirect_uri", "http://[::1]:1/callback")]);
    let begun = world.authority.oauth.authorization().begin(&query, FROM).await;
    assert!(matches!(begun, BeginOutcome::Page(_)), "{begun:?}");
}

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A world whose client may also be a device.
async fn device_world() -> World {
    let world = World::new().await;
    *world.document.lock() = changed(json!({ "grant_types": ["authorization_code", "refresh_token", DEVICE_CODE] }));
    world
}

impl World {
    async fn begin_device(&self) -> crate::support::oauth::Answer {
        self.authority.form("/oauth/device_authorization", &[("client_id", APP)]).await
    }

    /// The codes for the device and for its person.
    async fn device_codes(&self) -> (String, UserCode) {
        let answer = self.begin_device().await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let [device, user] = ["device_code", "user_code"].map(|name| answer.json()[name].as_str().unwrap().to_owned());
        (device, UserCode::parse(&user).unwrap())
    }

    async fn poll(&self, code: &str) -> crate::support::oauth::Answer {
        self.authority.clock.advance(Duration::from_secs(5));
        self.authority.token(&[("grant_type", DEVICE_CODE), ("client_id", APP), ("device_code", code)]).await
    }

    async fn approve(&self, code: &UserCode) -> Result<String, DeviceRefusal> {
        self.authority
            .oauth
            .devices()
            .approve(code, &Secret::new("form"), &self.authority.holder, ServerChoice::AsAsked, HOME)
            .await
            .map(|decided| decided.client_name)
    }
}

#[tokio::test]
async fn oa_146_a_client_with_a_document_starts_the_device_grant_before_its_first_consent() {
    let world = device_world().await;
    let (device, code) = world.device_codes().await;
    assert_eq!(world.poll(&device).await.error(), "400 authorization_pending");
    assert!(world.authority.oauth.clients().list().await.unwrap().is_empty(), "no row before a consent");
    assert_eq!(world.approve(&code).await.unwrap(), "The app");
    let answer = world.poll(&device).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert!(answer.json()["refresh_token"].is_string());
    assert_eq!(world.authority.oauth.clients().list().await.unwrap().len(), 1);
    assert_eq!(world.requests(), 1, "one reading serves all of it");
    // a denied one leaves nothing, and needs no document
    let world = device_world().await;
    let (device, code) = world.device_codes().await;
    world.authority.oauth.devices().deny(&code, &Secret::new("form"), &world.authority.holder, HOME).await.unwrap();
    assert_eq!(world.poll(&device).await.error(), "400 access_denied");
    assert!(world.authority.oauth.clients().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn oa_052_a_document_that_changes_while_the_device_waits_cannot_be_approved() {
    let world = device_world().await;
    let (_, code) = world.device_codes().await;
    world.authority.clock.advance(Duration::from_mins(6));
    let members = json!({ "client_name": "Another", "grant_types": ["authorization_code", DEVICE_CODE] });
    *world.document.lock() = changed(members);
    assert!(matches!(world.approve(&code).await, Err(DeviceRefusal::Unknown)));
}

#[tokio::test]
async fn oa_047_a_device_makes_the_gateway_read_nothing_of_this_network_and_no_more_than_a_login() {
    let world = device_world().await;
    world.internet.name("inside.example", &[&["10.0.0.1"]]);
    let start =
        async |client: &str| world.authority.form("/oauth/device_authorization", &[("client_id", client)]).await;
    let inside = start("https://inside.example/client.json").await;
    assert_eq!(inside.error(), "401 invalid_client");
    assert_eq!(world.requests(), 0);
    let mut limited = 0;
    for number in 0..60 {
        let answer = start(&format!("https://app.example/{number}.json")).await;
        limited += usize::from(answer.status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(limited >= 25, "{limited}");
}
