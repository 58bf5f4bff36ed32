//! The end of tokens: by their user, with their user, and with their server.

use std::process::Command;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::world::{World, protected_server};
use crate::kit::gateway::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_a_user_disconnects_an_account_and_its_tokens_are_revoked() {
    let world = World::new().await;
    let mut ada = world.connected("ada").await;
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");
    let account = ada.get("/account").await;
    assert!(account.body.contains("Disconnect your account at github"), "{}", account.body);
    let back = ada.submit(&account, "/account/disconnect", &[("backend", "github")]).await;
    assert_eq!(back.status, StatusCode::SEE_OTHER);
    let account = ada.get(&back.location.unwrap()).await;
    assert!(account.body.contains("Connect your account at github"), "{}", account.body);
    world.heard("revoke ada refresh_token").await;
    assert!(!world.authority.knows("ada"));
    let words = ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_tokens_end_with_the_last_key_of_their_user() {
    let world = World::new().await;
    let _ada = world.connected("ada").await;
    let _bob = world.connected("bob").await;
    let keys: Value = serde_json::from_str(&run(world.folder.path(), &["keys", "list", "--json"])).unwrap();
    let of_ada = keys["keys"].as_array().unwrap().iter().find(|key| key["user"] == "ada").unwrap();
    run(world.folder.path(), &["keys", "revoke", of_ada["id"].as_str().unwrap()]);
    world.heard("revoke ada refresh_token").await;
    assert_eq!((world.logins("ada").await, world.logins("bob").await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_tokens_end_with_their_server_and_with_its_address() {
    let world = World::new().await;
    let _ada = world.connected("ada").await;
    let kept = format!("[servers.github]\nurl = \"{}\"\nauth = \"oauth\"\n", world.server.url);
    let world = world.restart(&kept).await;
    assert_eq!(world.logins("ada").await, 1, "a restart ends nothing");
    let moved = kept.replace("/mcp", "/other");
    let world = world.restart(&moved).await;
    world.heard("revoke ada refresh_token").await;
    assert_eq!(world.logins("ada").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_a_server_that_names_another_authorization_server_leads_there_at_once() {
    let (world, other) = (World::new().await, protected_server().await);
    let mut ada = world.connected("ada").await;
    let mut client = ada.client("2025-06-18", json!({}));
    assert_eq!(client.call("github__whoami").await, "ada");
    world.server.moves_to(&other);
    let words = client.call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
    assert_eq!(world.logins("ada").await, 1, "tokens stay until others take their place");
    other.authority.account("ada");
    ada.approve("/connect/github").await;
    let log = other.authority.take_log();
    assert!(log[0].starts_with("register ") && log[1].starts_with("authorize "), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_134_the_operator_lists_and_ends_connected_accounts() {
    let world = World::new().await;
    let ada = world.connected("ada").await;
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "ada");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.arg("upstream").args(arguments).arg("--data-dir").arg(world.folder.path()).output().unwrap()
    };
    let listed = run(&["list", "--json"]).stdout;
    let listed = serde_json::from_slice::<Value>(&listed).unwrap()["accounts"].take();
    assert_eq!(
        (&listed[0]["user"], &listed[0]["server"], &listed[0]["scope"]),
        (&json!("ada"), &json!("github"), &json!("read"))
    );
    let text = String::from_utf8(run(&["list"]).stdout).unwrap();
    assert!(!text.contains("access-") && !text.contains("refresh-") && !text.contains("secret-of"), "{text}");
    assert!(!run(&["disconnect", "bob", "github"]).status.success());
    assert!(run(&["disconnect", "ada", "github"]).status.success());
    world.heard("revoke ada refresh_token").await;
    let words = ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_tokens_end_with_their_deleted_user() {
    let world = World::new().await;
    let _ada = world.connected("ada").await;
    let mut delete = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = delete.args(["users", "delete", "ada", "--data-dir"]).arg(world.folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    world.heard("revoke ada refresh_token").await;
    assert_eq!(world.logins("ada").await, 0);
}
