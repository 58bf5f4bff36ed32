//! The device grant (RFC 8628) as the device sees it.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    model::{Access, BackendId, Rights},
    oauth::{DeviceRefusal, ServerChoice, UserCode},
    support::Secret,
};
use serde_json::{Value, json};

use crate::support::oauth::{Answer, Authority, CALLBACK, HOME};

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

struct Device {
    authority: Authority,
    client: String,
}

impl Device {
    async fn new() -> Self {
        let authority = Authority::new().await;
        let metadata = json!({ "client_name": "A television", "grant_types": [DEVICE_CODE, "refresh_token"] });
        let registered = authority.register(&metadata).await;
        assert_eq!(registered.status, StatusCode::CREATED, "{}", registered.body);
        assert_eq!(registered.json()["grant_types"], json!(["refresh_token", DEVICE_CODE]));
        let client = registered.json()["client_id"].as_str().unwrap().to_owned();
        Self { authority, client }
    }

    async fn begin(&self, more: &[(&str, &str)]) -> Answer {
        let form = [("client_id", &*self.client)];
        self.authority.form("/oauth/device_authorization", &[&form[..], more].concat()).await
    }

    async fn codes(&self) -> (String, UserCode) {
        let answer = self.begin(&[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let codes = answer.json();
        let [device, user] = ["device_code", "user_code"].map(|member| codes[member].as_str().unwrap());
        (device.to_owned(), UserCode::parse(user).unwrap())
    }

    async fn poll(&self, code: &str) -> Answer {
        self.poll_as(&self.client, code).await
    }

    async fn poll_as(&self, client: &str, code: &str) -> Answer {
        let form = [("grant_type", DEVICE_CODE), ("client_id", client), ("device_code", code)];
        self.authority.token(&form).await
    }

    fn wait(&self) {
        self.authority.clock.advance(Duration::from_secs(5));
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

fn assert_error(answer: &Answer, error: &str) {
    assert_eq!(answer.error(), format!("400 {error}"));
}

#[tokio::test]
async fn oa_146_a_device_gets_tokens_after_its_person_approved() {
    let device = Device::new().await;
    let document = device.authority.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(document["device_authorization_endpoint"], "https://gw.example/oauth/device_authorization");
    assert!(document["grant_types_supported"].as_array().unwrap().contains(&json!(DEVICE_CODE)));
    let answer = device.begin(&[("scope", "mcp:git"), ("resource", "https://gw.example/mcp/git")]).await;
    assert_eq!((answer.status, answer.header("cache-control")), (StatusCode::OK, Some("no-store")));
    let codes = answer.json();
    let user_code = codes["user_code"].as_str().unwrap();
    assert_eq!((&codes["expires_in"], &codes["interval"]), (&json!(600), &json!(5)));
    assert_eq!(codes["verification_uri"], "https://gw.example/device");
    assert_eq!(codes["verification_uri_complete"], format!("https://gw.example/device?user_code={user_code}"));
    let code = codes["device_code"].as_str().unwrap();
    assert_error(&device.poll(code).await, "authorization_pending");

    let typed = UserCode::parse(&format!(" {} ", user_code.to_lowercase().replace('-', " "))).unwrap();
    let pending = device.authority.oauth.devices().pending(&typed, &device.authority.holder, HOME).await.unwrap();
    assert_eq!((&*pending.client.name, &*pending.resource), ("A television", "https://gw.example/mcp/git"));
    assert_eq!(device.approve(&typed).await.unwrap(), "A television");
    assert!(matches!(device.approve(&typed).await, Err(DeviceRefusal::Unknown)), "once");
    device.wait();
    let answer = device.poll(code).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let tokens = answer.json();
    assert_eq!(tokens["scope"], "mcp:git");
    let verified = device.authority.oauth.verify(tokens["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(verified.caller.user, device.authority.holder.user);
    let refreshed = device.authority.refresh(&device.client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, StatusCode::OK, "{}", refreshed.body);
    device.wait();
    assert_error(&device.poll(code).await, "invalid_grant");
    assert_eq!(device.authority.oauth.grants().of(&device.authority.holder.user).await.unwrap().len(), 1);
}

#[tokio::test]
async fn oa_146_polls_that_come_too_early_are_told_to_slow_down() {
    let device = Device::new().await;
    let (code, _) = device.codes().await;
    assert_error(&device.poll(&code).await, "authorization_pending");
    let poll_after = async |millis: u64| {
        device.authority.clock.advance(Duration::from_millis(millis));
        device.poll(&code).await
    };
    assert_error(&poll_after(4_000).await, "authorization_pending");
    assert_error(&poll_after(3_999).await, "slow_down");
    // from now on ten seconds
    assert_error(&poll_after(8_999).await, "slow_down");
    assert_error(&poll_after(14_000).await, "authorization_pending");
    assert_error(&poll_after(15_000).await, "authorization_pending");
    // another device has its own interval
    let (other, _) = device.codes().await;
    assert_error(&device.poll(&other).await, "authorization_pending");
}

#[tokio::test]
async fn oa_146_a_denied_device_and_one_that_nobody_answers_get_nothing() {
    let device = Device::new().await;
    let (code, user_code) = device.codes().await;
    let devices = device.authority.oauth.devices();
    assert_eq!(
        devices.deny(&user_code, &Secret::new("form"), &device.authority.holder, HOME).await.unwrap().client_name,
        "A television"
    );
    assert!(matches!(device.approve(&user_code).await, Err(DeviceRefusal::Unknown)));
    assert_error(&device.poll(&code).await, "access_denied");
    let (code, user_code) = device.codes().await;
    device.authority.clock.advance(Duration::from_mins(10));
    assert!(matches!(device.approve(&user_code).await, Err(DeviceRefusal::Unknown)));
    assert_error(&device.poll(&code).await, "expired_token");
    device.authority.clock.advance(Duration::from_mins(1));
    device.authority.oauth.purge().await.unwrap();
    assert_error(&device.poll(&code).await, "invalid_grant");
}

#[tokio::test]
async fn oa_146_codes_belong_to_their_client_and_are_redeemed_once() {
    let device = Device::new().await;
    let other = json!({ "client_name": "Another", "grant_types": [DEVICE_CODE] });
    let other = device.authority.register(&other).await.json()["client_id"].as_str().unwrap().to_owned();
    let (code, user_code) = device.codes().await;
    device.approve(&user_code).await.unwrap();
    assert_error(&device.poll_as(&other, &code).await, "invalid_grant");
    assert_error(&device.poll("unknown").await, "invalid_grant");
    let answers = futures_util::future::join_all((0..4).map(|_| device.poll(&code))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == StatusCode::OK).count(), 1);
    // a client of the code flow alone may not ask
    let app = device.authority.client().await;
    let answer = device.authority.form("/oauth/device_authorization", &[("client_id", &*app)]).await;
    assert_error(&answer, "unauthorized_client");
    assert_error(&device.poll_as(&app, &code).await, "unauthorized_client");
}

#[tokio::test]
async fn oa_146_requests_are_checked_and_bounded() {
    let device = Device::new().await;
    for (more, error) in [
        (("resource", "https://evil.example/mcp"), "invalid_target"),
        (("scope", "mcp:git \u{e9}"), "invalid_scope"),
        (("scope", &*"mcp:git ".repeat(300)), "invalid_scope"),
    ] {
        assert_error(&device.begin(&[more]).await, error);
    }
    for _ in 0..20 {
        assert_eq!(device.begin(&[]).await.status, StatusCode::OK);
    }
    let answer = device.begin(&[]).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.header("retry-after").is_some());
    let get = device.authority.get("/oauth/device_authorization").await;
    assert_eq!((get.status, get.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn oa_146_wrong_codes_are_limited_and_right_ones_cost_nothing() {
    let device = Device::new().await;
    let (_, user_code) = device.codes().await;
    let (devices, holder) = (device.authority.oauth.devices(), &device.authority.holder);
    for _ in 0..20 {
        devices.pending(&user_code, holder, HOME).await.unwrap();
    }
    let wrong = UserCode::parse("BBBB-BBBB").unwrap();
    for _ in 0..10 {
        assert!(matches!(devices.pending(&wrong, holder, HOME).await, Err(DeviceRefusal::Unknown)));
    }
    assert!(matches!(devices.pending(&wrong, holder, HOME).await, Err(DeviceRefusal::Limited(_))));
    let elsewhere = std::net::IpAddr::from([192, 0, 2, 9]);
    assert!(matches!(devices.pending(&wrong, holder, elsewhere).await, Err(DeviceRefusal::Limited(_))), "by key");
    let (_, other) = Authority::key(&device.authority.oauth, "eve", Rights::all_backends()).await;
    assert!(matches!(devices.pending(&wrong, &other, HOME).await, Err(DeviceRefusal::Limited(_))), "by network");
    assert!(devices.pending(&user_code, &other, elsewhere).await.is_ok());
}

#[tokio::test]
async fn oa_146_a_key_gives_no_more_than_it_has() {
    let device = Device::new().await;
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("git").unwrap(), Access::ReadOnly);
    let (_, holder) = Authority::key(&device.authority.oauth, "bob", rights.clone()).await;
    let devices = device.authority.oauth.devices();
    let begin = async |resource: &str| {
        let codes: Value = device.begin(&[("resource", resource), ("scope", "mcp:use mcp:admin")]).await.json();
        (
            codes["device_code"].as_str().unwrap().to_owned(),
            UserCode::parse(codes["user_code"].as_str().unwrap()).unwrap(),
        )
    };
    let form = Secret::new("form");
    let (_, code) = begin("https://gw.example/mcp/time").await;
    assert!(matches!(
        devices.approve(&code, &form, &holder, ServerChoice::AsAsked, HOME).await,
        Err(DeviceRefusal::NotAllowed)
    ));
    let (_, code) = begin("https://gw.example/mcp/hidden").await;
    assert!(
        matches!(
            devices.approve(&code, &form, &holder, ServerChoice::AsAsked, HOME).await,
            Err(DeviceRefusal::NotAllowed)
        ),
        "it does not exist"
    );
    let (poll, code) = begin("https://gw.example/mcp").await;
    devices.approve(&code, &form, &holder, ServerChoice::AsAsked, HOME).await.unwrap();
    let tokens = device.poll(&poll).await.json();
    assert_eq!(tokens["scope"], "mcp:use");
    let verified = device.authority.oauth.verify(tokens["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(verified.caller.rights, rights);
    // the key ends before the poll
    let (poll, code) = begin("https://gw.example/mcp").await;
    devices.approve(&code, &form, &holder, ServerChoice::AsAsked, HOME).await.unwrap();
    device.authority.oauth.keys().revoke(&holder.key).await.unwrap();
    assert_error(&device.poll(&poll).await, "invalid_grant");
}

#[tokio::test]
async fn oa_146_a_client_may_have_the_code_flow_beside_it() {
    let authority = Authority::new().await;
    let both = json!({ "redirect_uris": [CALLBACK], "grant_types": ["authorization_code", DEVICE_CODE] });
    let registered = authority.register(&both).await.json();
    assert_eq!(registered["response_types"], json!(["code"]));
    let none = json!({ "grant_types": ["authorization_code", DEVICE_CODE] });
    assert_eq!(authority.register(&none).await.error(), "400 invalid_redirect_uri");
}
