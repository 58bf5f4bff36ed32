//! A configured client secret, and the only authorization server that gets it.

use reqwest::StatusCode;
use serde_json::json;

use super::world::{World, protected_server};
use crate::kit::gateway::run;

const CLIENT: &str = "client_id = \"gateway\"\nclient_secret = \"secret-of-gateway\"\n";
const BOUND: &str = "client_id = \"gateway\"\nclient_secret = \"secret-of-gateway\"\nissuer = \"ISSUER\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_018_the_gateways_own_secret_goes_only_to_the_named_issuer() {
    let (server, evil) = (protected_server().await, protected_server().await);
    // the server may name the other one before the gateway asks for the first time
    server.moves_to(&evil);
    let (issuer, other) = (server.authority.issuer().to_owned(), evil.authority.issuer());
    let world = World::of(server, "client-credentials", BOUND).await;
    let words = world.person("ada").client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("it does not start") && !words.contains(other), "{words}");
    let status = run(world.folder.path(), &["status"]);
    assert!(status.contains(&issuer) && status.contains(other), "both are named for the operator: {status}");
    assert!(!status.contains("secret-of-gateway"), "{status}");
    assert_eq!((world.authority.take_log(), evil.authority.take_log()), (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_018_a_user_who_clicks_sends_no_secret_to_an_issuer_that_the_server_chose() {
    let evil = protected_server().await;
    let world = World::in_mode("oauth", BOUND).await;
    world.authority.knows_client("gateway", "secret-of-gateway");
    evil.authority.knows_client("gateway", "secret-of-gateway");
    let mut bob = world.person("bob");
    bob.log_in().await;
    world.server.moves_to(&evil);
    let page = bob.get("/connect/github").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    let (issuer, other) = (world.authority.issuer(), evil.authority.issuer());
    assert!(page.body.contains(issuer) && page.body.contains(other), "{}", page.body);
    assert_eq!((world.authority.take_log(), evil.authority.take_log()), (Vec::new(), Vec::new()));

    // of several, the configured one is taken
    world.server.names_issuers(&[other, issuer]);
    let ada = world.connected("ada").await;
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");
    // and a refresh goes there too, whatever the server names by then
    world.server.moves_to(&evil);
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");
    assert_eq!(evil.authority.take_log(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_018_a_secret_without_an_issuer_fails_its_server_and_costs_no_login() {
    let world = World::in_mode("oauth", BOUND).await;
    world.authority.knows_client("gateway", "secret-of-gateway");
    let ada = world.connected("ada").await;
    let section = format!("[servers.github]\nurl = \"{}\"\nauth = \"oauth\"\n{CLIENT}", world.server.url);
    let bound = format!("{section}issuer = \"{}/\"\n", world.authority.issuer());
    let world = world.restart(&format!("{section}[servers.demo]\nbuiltin = \"demo\"\n")).await;
    let mut ada = ada.at(&world.gateway.url);
    let words = ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("it does not start"), "{words}");
    assert!(run(world.folder.path(), &["status"]).contains("add `issuer = "), "the operator can mend it");
    assert!(!ada.client("2025-06-18", json!({})).tools_of("demo").await.is_empty(), "the others run");
    ada.log_in().await;
    let page = ada.get("/connect/github").await;
    assert!(page.status == StatusCode::BAD_REQUEST && page.body.contains("add “issuer = "), "{}", page.body);
    assert_eq!((world.authority.take_log(), world.logins("ada").await), (Vec::new(), 1));

    let world = world.restart(&bound).await;
    let ada = ada.at(&world.gateway.url);
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");

    // another issuer: the tokens are not for it
    let other = bound.replace(world.authority.issuer(), "https://other.example");
    let world = world.restart(&other).await;
    let ada = ada.at(&world.gateway.url);
    let words = ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
    assert_eq!(world.authority.take_log(), ["call ada"], "only the call before");
}
