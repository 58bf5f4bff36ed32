//! Logins of users at the authorization server, by the pages of the gateway.

use reqwest::StatusCode;
use serde_json::json;

use super::world::{World, page_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_003_a_login_follows_the_rules_for_clients() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    world.authority.account("ada");
    ada.log_in().await;
    ada.connect("/connect/github").await;
    let registered = format!("register {}/oauth/upstream/callback/github \"web\"", world.gateway.url);
    assert_eq!(
        world.authority.take_log(),
        [registered.as_str(), "authorize scope=read resource=mcp", "token authorization_code resource=mcp"]
    );
    // another user uses the registration that there is
    let mut bob = world.person("bob");
    world.authority.account("bob");
    bob.log_in().await;
    bob.connect("/connect/github").await;
    assert!(!world.authority.take_log().iter().any(|line| line.starts_with("register")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_004_a_client_that_the_authorization_server_has_forgotten_registers_once_more() {
    let world = World::new().await;
    let _ada = world.connected("ada").await;
    world.authority.forget_clients();
    let mut bob = world.person("bob");
    world.authority.account("bob");
    bob.log_in().await;
    bob.connect("/connect/github").await;
    let log = world.authority.take_log();
    assert_eq!(log.iter().filter(|line| line.starts_with("register")).count(), 1, "{log:?}");
    assert_eq!(bob.client("2025-11-25", json!({})).call("github__whoami").await, "bob");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_006_the_gateway_asks_before_it_sends_the_browser_away() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    let page = ada.get("/connect/github").await;
    assert_eq!(page.status, StatusCode::OK);
    for shown in ["github", "127.0.0.1", "<code>read</code>", "<strong>ada</strong>"] {
        assert!(page.body.contains(shown), "{shown}\n{}", page.body);
    }
    assert!(world.authority.take_log().is_empty(), "nothing was asked for yet");
    let denied = ada.submit(&page, "/connect/github", &[("decision", "cancel")]).await;
    assert_eq!((denied.status, denied.location.as_deref()), (StatusCode::SEE_OTHER, Some("/account")));
    assert!(world.authority.take_log().is_empty());
    let mut bob = world.person("bob");
    bob.log_in().await;
    let foreign = bob.submit(&page, "/connect/github", &[("decision", "connect")]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "a form is used by nobody else");
    assert_eq!(world.logins("ada").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_006_a_user_who_is_not_logged_in_logs_in_first_and_comes_back() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    let call = ada
        .client("2025-11-25", json!({ "elicitation": { "url": {} } }))
        .ask("tools/call", json!({ "name": "github__x" }))
        .await;
    let page = page_in(call["error"]["data"]["elicitations"][0]["url"].as_str().unwrap());
    let login = ada.get(&page).await;
    assert!(login.body.contains("Log in to connect your account"), "{}", login.body);
    let wrong = ada.submit(&login, "/login", &[("key", "lkk_wrong")]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    let key = ada.key.clone();
    let back = ada.submit(&wrong, "/login", &[("key", &key)]).await;
    assert_eq!(back.location.as_deref(), Some(page.as_str()));
    assert!(ada.get(&page).await.body.contains("Connect your account at"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_008_the_consent_page_offers_to_connect_and_goes_on_without_it() {
    let world = World::in_mode("oauth", "[servers.demo]\nbuiltin = \"demo\"").await;
    let mut ada = world.person("ada");
    let metadata = json!({ "client_name": "App", "redirect_uris": ["http://127.0.0.1:7777/callback"] });
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let registered = http.post(format!("{}/oauth/register", world.gateway.url)).body(metadata.to_string());
    let registered = registered.header("content-type", "application/json").send().await.unwrap().text().await.unwrap();
    let client =
        serde_json::from_str::<serde_json::Value>(&registered).unwrap()["client_id"].as_str().unwrap().to_owned();
    ada.log_in().await;
    let query = format!(
        "/oauth/authorize?response_type=code&client_id={client}&redirect_uri=http%3A%2F%2F127.0.0.1%3A7777%2Fcallback\
         &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&state=xyz\
         &resource={}/mcp",
        world.gateway.url
    );
    // an app that gets to another server alone needs no account at this one
    let elsewhere = ada.get(&format!("{query}%2Fdemo&scope=mcp:use")).await;
    assert!(elsewhere.body.contains(">demo</strong>") && !elsewhere.body.contains("/connect/"), "{}", elsewhere.body);
    let consent = ada.get(&query).await;
    let link =
        consent.body.split("href=\"/connect/github?consent=").nth(1).unwrap_or_else(|| panic!("{}", consent.body));
    let transaction = link.split('"').next().unwrap().to_owned();
    for told in ["tools not known yet", "not connected"] {
        assert!(consent.body.contains(told), "the page does not tell {told}: {}", consent.body);
    }
    world.authority.account("ada");
    let callback = ada.approve(&format!("/connect/github?consent={transaction}")).await;
    let end = ada.get(&callback).await;
    assert_eq!(end.location, Some(format!("/oauth/consent/{transaction}")));
    let consent = ada.get(&end.location.unwrap()).await;
    assert!(!consent.body.contains("/connect/github"), "it is connected");
    let approved = ada.submit(&consent, "/oauth/authorize", &[("decision", "approve")]).await;
    assert!(approved.location.unwrap().starts_with("http://127.0.0.1:7777/callback?code="));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_127_the_page_of_another_user_is_403_and_stores_nothing() {
    let world = World::new().await;
    let (ada, mut bob) = (world.person("ada"), world.person("bob"));
    let call = ada
        .client("2025-11-25", json!({ "elicitation": { "url": {} } }))
        .ask("tools/call", json!({ "name": "github__x" }))
        .await;
    let page = page_in(call["error"]["data"]["elicitations"][0]["url"].as_str().unwrap());
    bob.log_in().await;
    let seen = bob.get(&page).await;
    assert_eq!(seen.status, StatusCode::FORBIDDEN);
    assert!(seen.body.contains("This page is for somebody else"));
    // nor does a form of one's own help
    let own = bob.get("/connect/github").await;
    let ticket = page.split("t=").nth(1).unwrap();
    let address = format!("github?t={ticket}");
    let forged = bob.submit(&own, "/connect/github", &[("address", &address), ("decision", "connect")]).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let broken = bob.get("/connect/github?t=abc").await;
    assert_eq!(broken.status, StatusCode::BAD_REQUEST);
    assert!(world.authority.take_log().is_empty());
    assert_eq!((world.logins("ada").await, world.logins("bob").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_128_a_response_of_another_login_is_400_and_asks_for_no_token() {
    let world = World::new().await;
    let (mut ada, mut bob) = (world.person("ada"), world.person("bob"));
    world.authority.account("ada");
    ada.log_in().await;
    bob.log_in().await;
    let callback = ada.approve("/connect/github").await;
    let own = "/oauth/upstream/callback/github";
    let wrong_issuer = callback.replace("iss=http", "iss=https");
    world.authority.take_log();
    assert_eq!(bob.get(&callback).await.status, StatusCode::BAD_REQUEST, "another user's");
    assert_eq!(ada.get(&callback.replace("/callback/github", "/callback/other")).await.status, StatusCode::NOT_FOUND);
    for address in [
        format!("{own}?code=c"),
        format!("{own}?code=c&state=foreign"),
        wrong_issuer,
        // its request is used up by the wrong issuer
        callback,
    ] {
        let seen = ada.get(&address).await;
        assert_eq!(seen.status, StatusCode::BAD_REQUEST, "{address} {}", seen.body);
    }
    let callback = ada.approve("/connect/github").await;
    world.authority.take_log();
    let without = callback.split("&iss=").next().unwrap().to_owned();
    assert_eq!(ada.get(&without).await.status, StatusCode::BAD_REQUEST);
    assert!(world.authority.take_log().is_empty());

    let callback = ada.approve("/connect/github").await;
    let mut elsewhere = world.person("carl");
    assert_eq!(elsewhere.get(&callback).await.status, StatusCode::BAD_REQUEST, "nobody is logged in");
    let end = ada.get(&callback).await;
    assert_eq!(end.status, StatusCode::SEE_OTHER);
    world.authority.take_log();
    let again = ada.get(&callback).await;
    assert_eq!((again.status, again.location), (end.status, end.location), "reused: the same page");
    assert!(world.authority.take_log().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_150_a_connect_page_pressed_twice_leads_to_the_same_login() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    world.authority.account("ada");
    ada.log_in().await;
    let page = ada.get("/connect/github").await;
    let first = ada.submit(&page, "/connect/github", &[("decision", "connect")]).await;
    world.authority.take_log();
    let second = ada.submit(&page, "/connect/github", &[("decision", "connect")]).await;
    assert_eq!((second.status, &second.location), (StatusCode::SEE_OTHER, &first.location));
    assert!(world.authority.take_log().is_empty(), "nothing is asked for a second time");
    // two visits at once: one asks for tokens, the other waits for it
    let callback = ada.get(&first.location.unwrap()).await.location.unwrap();
    let mut twin = ada.twin();
    let (one, other) = tokio::join!(ada.get(&callback), twin.get(&callback));
    assert_eq!((one.status, &one.location), (StatusCode::SEE_OTHER, &other.location));
    let tokens = world.authority.take_log().into_iter().filter(|line| line.starts_with("token")).count();
    assert_eq!((tokens, world.logins("ada").await), (1, 1));
    // afterwards the form leads to the page that says so
    let late = ada.submit(&page, "/connect/github", &[("decision", "connect")]).await;
    assert_eq!(late.location.as_deref(), Some("/connect/github/done"));
    // disconnecting, pressed twice
    let account = ada.get("/account").await;
    let form = account.form_with("Disconnect");
    for _ in 0..2 {
        let seen = ada.submit(&form, "/account/disconnect", &[("backend", "github")]).await;
        assert_eq!(seen.location.as_deref(), Some("/account?done=account-disconnected"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_150_a_login_goes_on_when_its_browser_goes_away() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    world.authority.account("ada");
    ada.log_in().await;
    let callback = ada.approve("/connect/github").await;
    // the request is sent, and its connection closed at once
    ada.leave(&callback).await;
    let end = ada.get(&callback).await;
    assert_eq!(
        (end.status, end.location.as_deref()),
        (StatusCode::SEE_OTHER, Some("/connect/github/done")),
        "{}",
        end.body
    );
    let tokens = world.authority.take_log().into_iter().filter(|line| line.starts_with("token")).count();
    assert_eq!((tokens, world.logins("ada").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_006_a_login_that_the_user_denies_stores_nothing() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    world.authority.account("ada");
    ada.log_in().await;
    let callback = ada.approve("/connect/github").await;
    let (path, query) = callback.split_once('?').unwrap();
    let rest = query.split_once('&').unwrap().1;
    let seen = ada.get(&format!("{path}?error=access_denied&{rest}")).await;
    assert_eq!(seen.status, StatusCode::OK);
    assert!(seen.body.contains("You denied access"), "{}", seen.body);
    assert_eq!(world.logins("ada").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_004_the_gateway_publishes_its_metadata_documents() {
    let world = World::new().await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |name: &str| {
        http.get(format!("{}/oauth/client-metadata/{name}", world.gateway.url)).send().await.unwrap()
    };
    let document: serde_json::Value = serde_json::from_str(&get("github.json").await.text().await.unwrap()).unwrap();
    assert_eq!(document["client_id"], format!("{}/oauth/client-metadata/github.json", world.gateway.url));
    assert_eq!(document["redirect_uris"], json!([format!("{}/oauth/upstream/callback/github", world.gateway.url)]));
    assert_eq!(document["token_endpoint_auth_method"], "private_key_jwt");
    assert_eq!(document["jwks_uri"], format!("{}/oauth/jwks", world.gateway.url));
    let public: serde_json::Value =
        serde_json::from_str(&get("github.public.json").await.text().await.unwrap()).unwrap();
    assert_eq!(public["token_endpoint_auth_method"], "none");
    assert!(public.get("jwks_uri").is_none());
    // no name tells whether there is such a server
    assert_eq!(get("other.json").await.status(), 200);
    assert_eq!(get("Not-A-Name.json").await.status(), 404);
    assert_eq!(get("github").await.status(), 404);
}
