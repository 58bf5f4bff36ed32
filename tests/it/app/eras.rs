//! Detected eras of servers after a restart of the gateway.

use std::{fs, path::Path, process::Command, time::Duration};

use lockkeeper::{
    app::ControlFile,
    model::status::{EraSource, EraStatus, Status},
};
use reqwest::StatusCode;

use super::Gateway;
use crate::support::{data_folder::DataFolder, python};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/backend/era.py");

/// A server without sessions and an older one, each with a log of its input.
fn configure(folder: &Path, modern: &str, older: &str) {
    let server = |name: &str, mode: &str| {
        format!("[servers.{name}]\n") + &python::lines(&[SCRIPT, folder.join(name).to_str().unwrap(), mode])
    };
    fs::write(folder.join("lockkeeper.toml"), server("modern", modern) + &server("older", older)).unwrap();
}

/// The number of times the server was probed.
fn asked(folder: &Path, name: &str) -> usize {
    fs::read_to_string(folder.join(name)).unwrap().matches("server/discover").count()
}

/// The status of the two servers, after their starts.
async fn settled(gateway: &Gateway, folder: &Path) -> Vec<EraStatus> {
    while gateway.get("/readyz", None).await.status() != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let control = ControlFile::read(folder).unwrap().unwrap();
    let response = gateway.get("/api/status", Some(control.token.expose())).await;
    let status: Status = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    status.backends.into_iter().map(|backend| backend.era.unwrap()).collect()
}

/// The output of `lockkeeper status`.
async fn printed(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(["status", "--data-dir"]).arg(folder).current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_restarted_gateway_knows_the_eras_of_its_servers() {
    let folder = DataFolder::new();
    let folder = folder.path();
    configure(folder, "modern", "code-32601");
    let gateway = Gateway::start(folder).await;
    let first = settled(&gateway, folder).await;
    gateway.stop().await;
    let told = |eras: &[EraStatus]| eras.iter().map(|era| (era.era.clone(), era.found)).collect::<Vec<_>>();
    let expected =
        |found: [EraSource; 2]| ["modern", "legacy"].map(str::to_owned).into_iter().zip(found).collect::<Vec<_>>();
    assert_eq!(told(&first), expected([EraSource::Probed; 2]));
    assert_eq!((asked(folder, "modern"), asked(folder, "older")), (1, 0));

    let gateway = Gateway::start(folder).await;
    let again = settled(&gateway, folder).await;
    assert_eq!(told(&again), expected([EraSource::Cached; 2]));
    let since = |eras: &[EraStatus]| eras.iter().map(|era| era.since.clone()).collect::<Vec<_>>();
    assert_eq!(since(&again), since(&first));
    // a server that is known to speak 2026-07-28 is still asked for its server information
    assert_eq!((asked(folder, "modern"), asked(folder, "older")), (2, 0));
    let printed = printed(folder).await;
    assert!(printed.contains("modern, cached") && printed.contains("legacy, cached"), "{printed}");
    gateway.stop().await;

    // other servers under the same names
    configure(folder, "only", "exit");
    let gateway = Gateway::start(folder).await;
    assert_eq!(told(&settled(&gateway, folder).await), expected([EraSource::Probed; 2]));
    gateway.stop().await;
    configure(folder, "modern", "code-32601");
    let gateway = Gateway::start(folder).await;
    assert_eq!(
        told(&settled(&gateway, folder).await),
        expected([EraSource::Probed; 2]),
        "what was left out is forgotten"
    );
    gateway.stop().await;
}
