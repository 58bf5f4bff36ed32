//! Readiness: what a load balancer sees of a gateway that starts and stops.

use std::{fs, path::Path, process::Command};

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message as Frame, protocol::frame::coding::CloseCode};

use super::{Gateway, made_key, revocations::socket};
use crate::{
    storage::postgres::schema,
    support::{data_folder::DataFolder, link::Link},
};

/// Asks until the answer has this status; returns its text.
async fn answered(gateway: &Gateway, status: StatusCode) -> String {
    loop {
        let answer = gateway.get("/readyz", None).await;
        if answer.status() == status {
            return answer.text().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_signal_to_stop_on_it_is_not_ready_and_serves_on_for_a_while() {
    let folder = DataFolder::new();
    fs::write(folder.path().join("lockkeeper.toml"), "[limits]\nshutdown_delay = \"10m\"\n").unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let key = made_key(folder.path(), &["--direct"]);
    assert_eq!(answered(&gateway, StatusCode::OK).await, "ready\n");
    gateway.signal();
    assert_eq!(answered(&gateway, StatusCode::SERVICE_UNAVAILABLE).await, "stopping\n");
    assert_eq!(gateway.get("/healthz", None).await.status(), StatusCode::OK);
    assert_eq!(gateway.get("/sse", Some(&key)).await.status(), StatusCode::OK, "new streams open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn cut_off_from_its_database_it_is_not_ready_and_serves_no_message_on_a_channel() {
    let folder = DataFolder::new();
    let (link, linked) = Link::to(&schema("not_ready").await.0).await;
    fs::write(folder.path().join("lockkeeper.toml"), format!("database = \"{linked}\"\n")).unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let mut socket = socket(&gateway, &key_in_database(folder.path())).await;
    assert_eq!(answered(&gateway, StatusCode::OK).await, "ready\n");
    link.cut();
    assert_eq!(answered(&gateway, StatusCode::SERVICE_UNAVAILABLE).await, "waiting: the database does not answer\n");
    assert_eq!(gateway.get("/healthz", None).await.status(), StatusCode::OK);
    socket.send(Frame::text(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)).await.unwrap();
    let end = socket.next().await.unwrap().unwrap();
    assert!(matches!(&end, Frame::Close(Some(frame)) if frame.code == CloseCode::Again), "{end}");
    link.restore();
    assert_eq!(answered(&gateway, StatusCode::OK).await, "ready\n");
}

/// A direct key in the database that the configuration in this folder names.
fn key_in_database(folder: &Path) -> String {
    let mut create = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    create.args(["keys", "create", "test", "--direct", "--json", "--data-dir"]).arg(folder);
    let output = create.arg("--config").arg(folder.join("lockkeeper.toml")).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    made["secret"].as_str().unwrap().to_owned()
}
