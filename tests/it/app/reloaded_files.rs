//! Reloads of a file: with the former names of its keys, and several at the same moment.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Barrier},
};

use lockkeeper::{
    app::{App, Reloader},
    config::{self, CommandLineOptions, Config, Environment},
    model::status::Status,
    telemetry::Telemetry,
};
use reqwest::StatusCode;
use serde_json::json;
use tokio::task::{JoinSet, spawn_blocking};

use super::{client, direct_key};
use crate::{kit::gateway::Program, support::data_folder::DataFolder};

/// The file with these servers below a table of this name.
fn servers(table: &str, names: &[&str]) -> String {
    let server = |name: &&str| format!("[{table}.{name}]\nbuiltin = \"demo\"\n");
    names.iter().map(server).collect::<Vec<_>>().concat()
}

fn write(folder: &Path, text: &str) {
    fs::write(folder.join("lockkeeper.toml"), text).unwrap();
}

/// The status of an `initialize` at the endpoint of a server.
async fn status(url: &str, key: &str, server: &str) -> StatusCode {
    let about = json!({ "name": "t", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let request = client().post(format!("{url}/mcp/{server}")).bearer_auth(key);
    let request = request.header("accept", "application/json, text/event-stream");
    request.header("content-type", "application/json").body(message.to_string()).send().await.unwrap().status()
}

/// Waits until a server is served, or is not.
async fn until(wanted: StatusCode, program: &Program, key: &str, server: &str) {
    while status(&program.url, key, server).await != wanted {}
}

/// The differences between a gateway and its file, as its status has them.
async fn differences(folder: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(["status", "--json", "--data-dir", "data"]).current_dir(folder);
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    serde_json::from_slice::<Status>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")).configuration
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_former_names_is_taken_on_reload_too() {
    let folder = DataFolder::new();
    let folder = folder.path();
    write(folder, &servers("servers", &["first"]));
    let program = Program::start(folder);
    let key = &direct_key(&folder.join("data"));
    until(StatusCode::OK, &program, key, "first").await;

    write(folder, &(servers("backends", &["first", "late"]) + "[limits]\nquestion_timeout = \"5m\"\n"));
    program.hang_up();
    until(StatusCode::OK, &program, key, "late").await;
    assert_eq!(status(&program.url, key, "first").await, StatusCode::OK);
    assert_eq!(differences(folder).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_files_in_quick_succession_the_last_one_holds() {
    let folder = DataFolder::new();
    let folder = folder.path();
    write(folder, &servers("servers", &["first"]));
    let program = Program::start(folder);
    let key = &direct_key(&folder.join("data"));
    until(StatusCode::OK, &program, key, "first").await;

    for (earlier, last) in [("one", "two"), ("three", "four"), ("five", "six")] {
        write(folder, &servers("servers", &["first", earlier]));
        program.hang_up();
        write(folder, &servers("servers", &["first", last]));
        program.hang_up();
        program.hang_up();
        until(StatusCode::OK, &program, key, last).await;
        until(StatusCode::NOT_FOUND, &program, key, earlier).await;
        assert_eq!(status(&program.url, key, "first").await, StatusCode::OK);
    }
    assert_eq!(differences(folder).await, [""; 0]);
}

fn config(folder: &Path, names: &[&str]) -> Config {
    write(folder, &servers("servers", names));
    let given = CommandLineOptions {
        config: Some("lockkeeper.toml".into()),
        listen: Some("127.0.0.1:0".to_owned()),
        data_dir: Some("data".into()),
        ..CommandLineOptions::default()
    };
    config::load(&given, &Environment::default(), folder).unwrap()
}

/// Applies both at the same moment. The servers that each removed.
async fn apply_together(reloader: &Arc<Reloader>, configs: [Config; 2]) -> [Vec<String>; 2] {
    let start = Arc::new(Barrier::new(2));
    let [one, other] = configs.map(|config| {
        let (reloader, start) = (Arc::clone(reloader), Arc::clone(&start));
        spawn_blocking(move || {
            start.wait();
            reloader.apply(&config).changes.removed.iter().map(ToString::to_string).collect()
        })
    });
    [one.await.unwrap(), other.await.unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_reloads_at_the_same_moment_follow_each_other() {
    let folder = DataFolder::new();
    let [base, one, two] =
        [&["first"][..], &["first", "one"], &["first", "two"]].map(|names| config(folder.path(), names));
    let app = Box::pin(App::build(base.clone(), Telemetry::detached())).await.unwrap();
    let (url, reloader) = (app.public_url().to_string(), app.reloader());
    let mut served = JoinSet::new();
    served.spawn(app.serve(std::future::pending()));
    let key = &direct_key(&folder.path().join("data"));

    for _ in 0..20 {
        let removed = apply_together(&reloader, [one.clone(), two.clone()]).await;
        // the later one ends the server of the earlier one
        let [removed_by_one, removed_by_two] = removed.each_ref().map(|names| names.join(" "));
        let (last, holds, gone) = match (removed_by_one.as_str(), removed_by_two.as_str()) {
            ("two", "") => (&one, "one", "two"),
            ("", "one") => (&two, "two", "one"),
            other => panic!("{other:?}"),
        };
        assert_eq!(status(&url, key, holds).await, StatusCode::OK);
        assert_eq!(status(&url, key, gone).await, StatusCode::NOT_FOUND);
        assert_eq!(status(&url, key, "first").await, StatusCode::OK);
        assert!(reloader.apply(last).is_empty(), "it runs already");
        assert_eq!(reloader.apply(&base).changes.removed.len(), 1);
    }
}
