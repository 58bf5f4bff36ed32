//! What the operator's commands show of a gateway that runs, and change in it.

use std::{fs, path::Path};

use reqwest::StatusCode;
use serde_json::Value;

use super::Gateway;
use crate::{
    backend::scripted_servers::everyday,
    kit::{gateway::run, programs::ProgramServer, scripted::Script},
    support::data_folder::DataFolder,
};

/// A server that lists the tool `about` too.
fn server() -> ProgramServer {
    ProgramServer::start(everyday(Script::everyday().lists(&["about"])))
}

/// What a command prints.
async fn printed(folder: &Path, arguments: &[&str]) -> String {
    let (folder, arguments) = (folder.to_owned(), arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let run = move || run(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, arguments).await).unwrap()
}

async fn start(folder: &Path, configuration: &str) -> Gateway {
    fs::write(folder.join("lockkeeper.toml"), configuration).unwrap();
    let gateway = Gateway::start(folder).await;
    while gateway.get("/readyz", None).await.status() != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    gateway
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_has_processes_and_memory_of_each_server_and_since_when_one_fails() {
    let (folder, server) = (DataFolder::new(), server());
    let folder = folder.path();
    let text = format!(
        "[servers.git]\nera = \"legacy\"\n{}[servers.gone]\ncommand = \"/no/such\"\n[servers.demo]\nbuiltin = \"demo\"\n",
        server.lines()
    );
    let gateway = start(folder, &text).await;
    let status = json(folder, &["status", "--json"]).await;
    let of = |id: &str| status["servers"].as_array().unwrap().iter().find(|server| server["id"] == id).unwrap();
    let git = of("git");
    assert!(git["processes"].as_u64() >= Some(1) && git["memory_bytes"].as_u64() > Some(100_000), "{git}");
    assert_eq!(git.get("failing_since"), None);
    let gone = of("gone");
    assert_eq!((&gone["state"], &gone["processes"]), (&"failed".into(), &0.into()), "{gone}");
    assert!(gone["failing_since"].as_str().unwrap().ends_with('Z'), "{gone}");
    assert_eq!(of("demo").get("processes"), None, "it is no program");

    let shown = printed(folder, &["status"]).await;
    let heading = shown.lines().find(|line| line.starts_with("SERVER")).unwrap();
    assert_eq!(heading.split_whitespace().nth(1), Some("STATE"));
    assert!(shown.contains("gone: failing since 20") && shown.contains(", next try in"), "{shown}");
    assert!(shown.lines().find(|line| line.starts_with("git ")).unwrap().ends_with(" MiB"), "{shown}");
    assert!(printed(folder, &["status", "--verbose"]).await.contains("TRANSPORT"));
    gateway.stop().await;
}
