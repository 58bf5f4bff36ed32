//! What counts by the address of a client, at a gateway that clients reach directly and at one behind a trusted proxy.

use std::{net::SocketAddr, time::Duration};

use axum::{Extension, Router, body::Body, extract::ConnectInfo, routing::any};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use lockkeeper::{
    http::{Bound, GuardSettings},
    model::{AllowedNetworks, Direct, NewKey, QueryKey, Rights, UserId},
    resource::{Authorized, Gate, GateSettings},
    support::{OsRandom, Random},
    web,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use url::Url;

use super::site::{ROOT, Seen, Site, encode, post};
use crate::support::http::{guarded, protected};

/// Address of the proxy.
const PROXY: &str = "10.0.0.1";
const CALLBACK: &str = "http://127.0.0.1:33418/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// How clients reach the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By themselves; what they say of their address is a lie.
    Direct,
    /// Through a proxy that the operator trusts; what is left of its own word is a lie.
    Proxied,
}

/// A whole gateway: guard, gate, pages and OAuth endpoints.
struct Deployment {
    site: Site,
    app: Router,
    way: Way,
}

impl Deployment {
    async fn new(way: Way) -> Self {
        let site = Site::open().await;
        let others = web::router(site.web.clone()).merge(site.oauth.router());
        let caller = async |Extension(authorized): Extension<Authorized>| authorized.caller.user.to_string();
        let endpoints = Router::new().route("/mcp", any(caller));
        let gate = Gate::new(site.oauth.clone(), GateSettings { query_key: QueryKey::Accepted });
        let service = protected(gate, endpoints, others);
        let random: Arc<dyn Random> = Arc::new(OsRandom);
        let mut settings = GuardSettings::new(Url::parse(ROOT).unwrap(), Bound::Network, random);
        if way == Way::Proxied {
            settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        }
        let routes = Router::new().fallback(move |request: axum::extract::Request| {
            let service = service.clone();
            async move { service.oneshot(request).await.unwrap() }
        });
        Self { site, app: guarded(routes, &settings), way }
    }

    /// Both ways.
    async fn both() -> [Self; 2] {
        [Self::new(Way::Direct).await, Self::new(Way::Proxied).await]
    }

    /// Sends a request from this address.
    async fn send(&self, from: &str, request: http::request::Builder, body: String) -> Seen {
        let (peer, forwarded) = match self.way {
            Way::Direct => (from, "198.51.100.1".to_owned()),
            Way::Proxied => (PROXY, format!("198.51.100.1, {from}")),
        };
        let peer = ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 4711));
        let host = Url::parse(ROOT).unwrap().host_str().unwrap().to_owned();
        let request = request.header(header::HOST, host).header("x-forwarded-for", forwarded).extension(peer);
        let answer = self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Seen { status: parts.status, headers: parts.headers, body }
    }

    async fn register(&self, from: &str, name: &str) -> Seen {
        let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
        let request = Request::post("/oauth/register").header(header::CONTENT_TYPE, "application/json");
        self.send(from, request, metadata.to_string()).await
    }

    /// Enters a key on the login page of a new browser.
    async fn log_in(&self, from: &str, key: &str) -> Seen {
        let page = self.send(from, Request::get("/login"), String::new()).await;
        let form = encode(&[("token", &page.field("token")), ("key", key)]);
        self.send(from, post("/login").header(header::COOKIE, cookie(&page)), form).await
    }

    /// Sends a credential to `/mcp`.
    async fn call(&self, from: &str, credential: &str) -> Seen {
        let request = Request::post("/mcp").header(header::AUTHORIZATION, format!("Bearer {credential}"));
        self.send(from, request, String::new()).await
    }

    async fn token(&self, from: &str, form: &[(&str, &str)]) -> Seen {
        self.send(from, post("/oauth/token"), encode(form)).await
    }

    /// A direct key for the networks `192.0.2.0/24` and `2001:db8:1::/48`.
    async fn narrow_key(&self) -> String {
        let new = NewKey {
            name: "office".to_owned(),
            user: Some(UserId::new("owner")),
            rights: Rights::all_backends(),
            direct: Direct::Allowed,
            expires: None,
            networks: "192.0.2.0/24 2001:db8:1::/48".parse::<AllowedNetworks>().unwrap(),
        };
        self.site.oauth.keys().create(new).await.unwrap().1.expose().to_owned()
    }

    /// An app that is approved with this key: its id and its code.
    async fn approved(&self, from: &str, key: &str) -> (String, String) {
        let client = json_of(&self.register(from, "App").await)["client_id"].as_str().unwrap().to_owned();
        let session = cookie(&self.log_in(from, key).await);
        let path = super::site::authorize_path(&client, &[]);
        let page = self.send(from, Request::get(path).header(header::COOKIE, &session), String::new()).await;
        let (token, transaction) = (page.field("token"), page.field("transaction"));
        let form = encode(&[("token", &*token), ("transaction", &*transaction), ("decision", "approve")]);
        let answer = self.send(from, post("/oauth/authorize").header(header::COOKIE, &session), form).await;
        let code = answer.told().into_iter().find(|(name, _)| name == "code").unwrap().1;
        (client, code)
    }
}

fn cookie(seen: &Seen) -> String {
    seen.headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn json_of(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap_or_else(|_| panic!("no JSON: {} {}", seen.status, seen.body))
}

/// Status and error code.
fn error(seen: &Seen) -> (u16, String) {
    (seen.status.as_u16(), json_of(seen)["error"].as_str().unwrap_or_default().to_owned())
}

fn retry_after(seen: &Seen) -> &str {
    seen.headers[header::RETRY_AFTER].to_str().unwrap()
}

#[tokio::test]
async fn oa_042_registrations_of_a_network_are_limited_wherever_it_comes_through() {
    for deployment in Deployment::both().await {
        let way = deployment.way;
        for number in 0..60 {
            let answer = deployment.register("2001:db8::1", &format!("{number}")).await;
            assert_eq!(answer.status, StatusCode::CREATED, "{way:?} {number}");
        }
        let refused = deployment.register("2001:db8::2", "one more of the same /64").await;
        assert_eq!(error(&refused), (429, "temporarily_unavailable".to_owned()), "{way:?}");
        assert_eq!(retry_after(&refused), "61", "{way:?}");
        let other = deployment.register("192.0.2.1", "of another network").await;
        assert_eq!(other.status, StatusCode::CREATED, "{way:?}");
        deployment.site.clock.advance(Duration::from_mins(1));
        let later = deployment.register("2001:db8::1", "a minute later").await;
        assert_eq!(later.status, StatusCode::CREATED, "{way:?}");
        assert_eq!(deployment.register("2001:db8::1", "and another").await.status, 429, "{way:?}");
    }
}

#[tokio::test]
async fn oa_042_a_registration_that_somebody_consents_to_is_given_back() {
    for deployment in Deployment::both().await {
        let home = "192.0.2.1";
        let (client, _) = deployment.approved(home, &deployment.site.key).await;
        for number in 0..60 {
            assert_eq!(deployment.register(home, &format!("{number}")).await.status, StatusCode::CREATED, "{number}");
        }
        assert_eq!(deployment.register(home, "one too many").await.status, 429);
        // the same registration again takes no space
        let again = deployment.register(home, "App").await;
        assert_eq!(again.status, 429, "the limit comes before the look-up");
        deployment.site.clock.advance(Duration::from_mins(1));
        assert_eq!(json_of(&deployment.register(home, "App").await)["client_id"], *client);
        assert_eq!(deployment.register(home, "it was given back").await.status, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn oa_127_wrong_keys_on_the_login_page_are_limited_by_network() {
    for deployment in Deployment::both().await {
        let way = deployment.way;
        for address in 1..=10 {
            let page = deployment.log_in(&format!("2001:db8::{address}"), "lkk_guess").await;
            assert_eq!((page.status, page.heading()), (StatusCode::FORBIDDEN, "Log in"), "{way:?}");
        }
        let limited = deployment.log_in("2001:db8::99", "lkk_guess").await;
        assert_eq!((limited.status, limited.heading()), (StatusCode::TOO_MANY_REQUESTS, "Log in"), "{way:?}");
        assert_eq!(retry_after(&limited), "90", "{way:?}");
        // nobody is locked out
        let right = deployment.log_in("2001:db8::99", &deployment.site.key).await;
        assert_eq!((right.status, right.location()), (StatusCode::SEE_OTHER, "/account"), "{way:?}");
        assert_eq!(deployment.log_in("2001:db8::99", "lkk_guess").await.status, 429, "a success resets nothing");
        assert_eq!(deployment.log_in("2001:db8:0:1::1", "lkk_guess").await.status, 403, "another network");
        // 10 in 15 minutes
        deployment.site.clock.advance(Duration::from_secs(90));
        assert_eq!(deployment.log_in("2001:db8::1", "lkk_guess").await.status, 403, "{way:?}");
        assert_eq!(deployment.log_in("2001:db8::1", "lkk_guess").await.status, 429, "{way:?}");
        deployment.site.clock.advance(Duration::from_mins(15));
        for _ in 0..10 {
            assert_eq!(deployment.log_in("2001:db8::1", "lkk_guess").await.status, 403, "{way:?}");
        }
    }
}

#[tokio::test]
async fn oa_127_wrong_bearer_keys_are_limited_apart_from_logins() {
    for deployment in Deployment::both().await {
        let (way, home) = (deployment.way, "192.0.2.7");
        let direct = deployment.narrow_key().await;
        for _ in 0..10 {
            assert_eq!(error(&deployment.call(home, "lkk_old").await), (401, "invalid_token".to_owned()), "{way:?}");
        }
        let limited = deployment.call(home, "lkk_old").await;
        assert_eq!(limited.status, StatusCode::TOO_MANY_REQUESTS, "{way:?}: {}", limited.body);
        assert!((1..=91).contains(&retry_after(&limited).parse::<u32>().unwrap()), "{way:?}");
        assert_eq!(deployment.log_in(home, "lkk_typo").await.status, 403, "logins are counted apart");
        assert_eq!(deployment.call(home, &direct).await.body, "owner", "a right key passes at once");
        assert_eq!(deployment.call("192.0.2.8", "lkk_old").await.status, 401, "another address");
        deployment.site.clock.advance(Duration::from_secs(90));
        assert_eq!(deployment.call(home, "lkk_old").await.status, 401, "{way:?}");
    }
}

#[tokio::test]
async fn oa_127_guesses_at_one_key_are_delayed_whatever_network_they_come_from() {
    for deployment in Deployment::both().await {
        let (way, good) = (deployment.way, deployment.site.key.clone());
        let (id, revoked) = deployment.site.key_for("ada").await;
        deployment.site.oauth.keys().revoke(&id).await.unwrap();
        for address in 1..=5 {
            let page = deployment.log_in(&format!("192.0.2.{address}"), &revoked).await;
            assert_eq!(page.status, StatusCode::FORBIDDEN, "{way:?}");
        }
        for (address, wait) in [(6, 30), (7, 60), (8, 120)] {
            let page = deployment.log_in(&format!("192.0.2.{address}"), &revoked).await;
            assert_eq!((page.status.as_u16(), retry_after(&page)), (429, &*wait.to_string()), "{way:?}");
            deployment.site.clock.advance(Duration::from_secs(wait));
        }
        assert_eq!(deployment.log_in("192.0.2.6", &good).await.status, StatusCode::SEE_OTHER, "{way:?}");
        // the longest delay passes without a guess: all is forgotten
        deployment.site.clock.advance(Duration::from_hours(1));
        assert_eq!(deployment.log_in("192.0.2.9", &revoked).await.status, StatusCode::FORBIDDEN, "{way:?}");
    }
}

#[tokio::test]
async fn oa_126_a_key_logs_in_from_its_networks_alone() {
    for deployment in Deployment::both().await {
        let (way, key) = (deployment.way, deployment.narrow_key().await);
        for inside in ["192.0.2.200", "2001:db8:1:2::3"] {
            let answer = deployment.log_in(inside, &key).await;
            assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/account"), "{way:?} {inside}");
        }
        let wrong = deployment.log_in("203.0.113.1", "lkk_wrong").await;
        let outside = deployment.log_in("203.0.113.1", &key).await;
        assert_eq!((outside.status, outside.heading()), (StatusCode::FORBIDDEN, "Log in"), "{way:?}");
        assert_eq!(outside.without_token(), wrong.without_token(), "{way:?}: no more than of a wrong key");
        // nor does a session go elsewhere
        let session = cookie(&deployment.log_in("192.0.2.1", &key).await);
        let account = async |from| {
            deployment.send(from, Request::get("/account").header(header::COOKIE, &session), String::new()).await
        };
        assert_eq!(account("192.0.2.1").await.status, StatusCode::OK, "{way:?}");
        assert_eq!(account("203.0.113.1").await.location(), "/login", "{way:?}");
        assert_eq!(account("192.0.2.1").await.status, StatusCode::OK, "{way:?}");
    }
}

#[tokio::test]
async fn oa_126_a_direct_key_opens_endpoints_from_its_networks_alone() {
    for deployment in Deployment::both().await {
        let (way, key) = (deployment.way, deployment.narrow_key().await);
        // before and after its verification is remembered
        for _ in 0..2 {
            assert_eq!(
                error(&deployment.call("203.0.113.1", &key).await),
                (401, "invalid_token".to_owned()),
                "{way:?}"
            );
            assert_eq!(deployment.call("192.0.2.1", &key).await.body, "owner", "{way:?}");
        }
    }
}

#[tokio::test]
async fn oa_126_every_token_of_a_key_is_good_in_its_networks_alone() {
    for deployment in Deployment::both().await {
        let (way, key) = (deployment.way, deployment.narrow_key().await);
        let (inside, outside) = ("192.0.2.1", "203.0.113.1");
        let (client, code) = deployment.approved(inside, &key).await;
        let redeem = [
            ("grant_type", "authorization_code"),
            ("client_id", &*client),
            ("code", &*code),
            ("code_verifier", VERIFIER),
        ];
        let refused = (400, "invalid_grant".to_owned());
        assert_eq!(error(&deployment.token(outside, &redeem).await), refused, "{way:?}");
        let tokens = json_of(&deployment.token(inside, &redeem).await);
        let access = tokens["access_token"].as_str().unwrap();
        for _ in 0..2 {
            assert_eq!(error(&deployment.call(outside, access).await), (401, "invalid_token".to_owned()), "{way:?}");
            assert_eq!(deployment.call(inside, access).await.body, "owner", "{way:?}");
        }
        let refresh = tokens["refresh_token"].as_str().unwrap();
        let refresh = [("grant_type", "refresh_token"), ("client_id", &*client), ("refresh_token", refresh)];
        assert_eq!(error(&deployment.token(outside, &refresh).await), refused, "{way:?}");
        assert_eq!(deployment.token(inside, &refresh).await.status, StatusCode::OK, "{way:?}: nothing had changed");
    }
}
