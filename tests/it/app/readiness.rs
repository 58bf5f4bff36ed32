//! Readiness: what a load balancer sees of a gateway that starts and stops.

use std::fs;

use reqwest::StatusCode;

use super::{Running, made_key};
use crate::support::data_folder::DataFolder;

/// Asks until the answer has this status; returns its text.
async fn answered(gateway: &Running, status: StatusCode) -> String {
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
    let mut gateway = Running::start(folder.path()).await;
    let key = made_key(folder.path(), &["--direct"]);
    assert_eq!(answered(&gateway, StatusCode::OK).await, "ready\n");
    let (stop, _) = tokio::sync::oneshot::channel();
    std::mem::replace(&mut gateway.stop, stop).send(()).unwrap();
    assert_eq!(answered(&gateway, StatusCode::SERVICE_UNAVAILABLE).await, "stopping\n");
    assert_eq!(gateway.get("/healthz", None).await.status(), StatusCode::OK);
    assert_eq!(gateway.get("/sse", Some(&key)).await.status(), StatusCode::OK, "new streams open");
}
