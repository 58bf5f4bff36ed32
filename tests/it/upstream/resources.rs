//! The resource that tokens are for: the server, and no other.

use reqwest::StatusCode;
use serde_json::json;

use super::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_019_a_tenant_of_a_shared_origin_gets_no_token_for_all_of_it() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    // the tenant at /mcp names the whole origin
    world.server.names_resource(world.server.origin());
    let page = ada.get("/connect/github").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST, "{}", page.body);
    let line = format!("resource = &#34;{}&#34;", world.server.origin());
    assert!(page.body.contains(&line), "the refusal shows the line: {}", page.body);
    assert_eq!((world.authority.take_log(), world.logins("ada").await), (Vec::new(), 0));
    // a user who connected before keeps a token for the server only
    world.server.names_resource(&world.server.url);
    let bob = world.connected("bob").await;
    world.server.names_resource(world.server.origin());
    world.authority.expire();
    assert_eq!(bob.client("2025-11-25", json!({})).call("github__whoami").await, "bob");
    assert_eq!(world.authority.take_log(), ["token refresh_token resource=mcp", "call bob"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_019_the_operator_names_another_resource_and_the_page_shows_it() {
    let world = World::new().await;
    let bob = world.connected("bob").await;
    let origin = world.server.origin().to_owned();
    world.server.names_resource(&origin);
    let text = format!("[servers.github]\nurl = \"{}\"\nauth = \"oauth\"\nresource = \"{origin}\"\n", world.server.url);
    let world = world.restart(&text).await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    world.authority.account("ada");
    let page = ada.get("/connect/github").await;
    let told = format!("The access is for <strong class=\"name\">{origin}</strong>");
    assert!(page.body.contains(&told), "{}", page.body);
    ada.connect("/connect/github").await;
    let log = world.authority.take_log();
    assert!(log.contains(&"authorize scope=read resource=other".to_owned()), "{log:?}");
    assert!(log.contains(&"token authorization_code resource=other".to_owned()), "{log:?}");
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");
    // bob's token is for another resource: it is not used for this one
    let bob = bob.at(&world.gateway.url);
    let words = bob.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_019_without_a_resource_none_is_sent() {
    let world = World::in_mode("oauth", "resource = false").await;
    world.server.names_resource("api://0a1b2c3d");
    let mut ada = world.person("ada");
    world.authority.account("ada");
    ada.log_in().await;
    let page = ada.get("/connect/github").await;
    assert!(!page.body.contains("The access is for"), "{}", page.body);
    ada.connect("/connect/github").await;
    let log = world.authority.take_log();
    assert!(log.contains(&"authorize scope=read resource=none".to_owned()), "{log:?}");
    assert!(log.contains(&"token authorization_code resource=none".to_owned()), "{log:?}");
}
