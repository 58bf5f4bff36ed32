//! Lists of servers after a restart of the gateway: shown at once, and those of a user to that user alone.

use std::{fs, path::Path};

use serde_json::json;
use sqlx::SqlitePool;

use super::{Gateway, made_key};
use crate::{
    backend::scripted_servers::gated,
    kit::{person::Person, programs::ProgramServer, scripted::Gate},
    support::data_folder::DataFolder,
};

/// A server that is the same for all, and one that is told who calls.
fn configure(folder: &Path, server: &ProgramServer) {
    let lines = server.lines();
    let told = "share = \"user\"\nenv = { CALLER = \"${user}\" }\n";
    let text = format!("[servers.alike]\nera = \"legacy\"\n{lines}[servers.mine]\nera = \"legacy\"\n{lines}{told}");
    fs::write(folder.join("lockkeeper.toml"), text).unwrap();
}

/// The kept lists of tools: server, user and text.
async fn kept(folder: &Path) -> Vec<(String, String, Vec<u8>)> {
    let url = format!("sqlite://{}", folder.join("lockkeeper.sqlite3").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    let rows = "SELECT server, user_id, list FROM server_lists WHERE method = 'tools/list' ORDER BY server, user_id";
    let rows = sqlx::query_as(rows).fetch_all(&pool).await.unwrap();
    pool.close().await;
    rows
}

/// The tools that a client without capabilities is shown.
async fn tools(gateway: &Gateway, key: &str) -> Vec<String> {
    Person::new(&gateway.url, key).client("2025-11-25", json!({})).tools().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_gateway_shows_its_lists_at_once() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let gate = Gate::opened();
    let slow = ProgramServer::start(gated(&gate));
    configure(folder, &slow);
    let gateway = Gateway::start(folder).await;
    let [ann, eve] = ["ann", "eve"].map(|user| made_key(folder, &["--direct", "--user", user]));
    let tools = tools(&gateway, &ann).await;
    assert!(tools.iter().any(|name| name.starts_with("alike__")), "{tools:?}");
    assert!(tools.iter().any(|name| name.starts_with("mine__")), "{tools:?}");
    gateway.stop().await;
    let rows = kept(folder).await;
    let owners: Vec<_> = rows.iter().map(|(server, user, _)| (server.as_str(), user.as_str())).collect();
    assert_eq!(owners, [("alike", ""), ("mine", "ann")]);
    let shows_names = |text: &[u8]| String::from_utf8_lossy(text).contains("inputSchema");
    assert!(shows_names(&rows[0].2) && !shows_names(&rows[1].2), "the list of a user is sealed");

    gate.close();
    let gateway = Gateway::start(folder).await;
    assert_eq!(self::tools(&gateway, &ann).await, tools, "while no server answers");
    let of_eve = self::tools(&gateway, &eve).await;
    assert!(of_eve.iter().all(|name| name.starts_with("alike__")), "{of_eve:?}");
    gate.open();
    gateway.stop().await;
}
