//! Accounts of users at the well-known services, behind the gateway.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use super::world::World;
use crate::kit::{
    authority::Endpoint,
    protected::ProtectedServer,
    services::{GIVEN, SERVICES, Service},
};

async fn world(service: &Service) -> World {
    let server = ProtectedServer::start().await;
    service.play(&server.authority);
    let mut options = String::new();
    if !service.registers {
        options = format!("client_id = \"{}\"\nclient_secret = \"{}\"\nissuer = \"ISSUER\"\n", GIVEN.0, GIVEN.1);
    }
    if service.hides_pkce() {
        options += "pkce = \"assume\"\n";
    }
    World::of(server, "oauth", &options).await
}

async fn use_service(service: &Service) {
    let (world, name) = (world(service).await, service.name);
    let mut ada = world.connected("ada").await;
    let call =
        async |ada: &crate::kit::person::Person| ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert_eq!(call(&ada).await, "ada", "{name}");
    world.authority.expire();
    assert_eq!(call(&ada).await, "ada", "{name}: refreshed");
    // it fails for a while, after a new login: a token that was just refreshed and is rejected is another matter
    ada.connect("/connect/github").await;
    service.fail(&world.authority);
    world.authority.expire();
    let words = call(&ada).await;
    assert!(words.contains("the authorization server") && !words.contains("/connect/"), "{name}: {words}");
    assert_eq!(world.logins("ada").await, 1, "{name}");
    world.authority.recovers(Endpoint::Token);
    // for a second nobody is asked again
    let recovered = async { while call(&ada).await != "ada" {} };
    timeout(Duration::from_secs(30), recovered).await.expect(name);
    // and then for good: the user is asked, and the tokens stay until others take their place
    ada.connect("/connect/github").await;
    service.end(&world.authority);
    world.authority.expire();
    for _ in 0..2 {
        let words = call(&ada).await;
        assert!(words.contains("/connect/github?t="), "{name}: {words}");
    }
    assert_eq!(world.logins("ada").await, 1, "{name}");
    let account = ada.get("/account").await;
    assert!(account.body.contains("Connect your account at github"), "{name}: {}", account.body);
    world.authority.recovers(Endpoint::Token);
    ada.connect("/connect/github").await;
    assert_eq!(call(&ada).await, "ada", "{name}: connected again");
    // another user had nothing to do with it
    let bob = world.connected("bob").await;
    assert_eq!((call(&bob).await, call(&ada).await), ("bob".to_owned(), "ada".to_owned()), "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_021_up_022_users_stay_connected_at_every_service_until_the_grant_is_over() {
    for four in SERVICES.chunks(4) {
        join_all(four.iter().map(|service| Box::pin(use_service(service)))).await;
    }
}
