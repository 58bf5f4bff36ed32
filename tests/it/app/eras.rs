//! Detected eras of servers after a restart of the gateway.

use std::{fs, path::Path, process::Command, time::Duration};

use lockkeeper::{
    app::ControlFile,
    model::status::{EraSource, EraStatus, Status},
};
use reqwest::StatusCode;

use super::Gateway;
use crate::{backend::eras::server, kit::programs::ProgramServer, support::data_folder::DataFolder};

/// A server without sessions and an older one.
struct Servers {
    modern: ProgramServer,
    older: ProgramServer,
}

impl Servers {
    fn start(modern: &str, older: &str) -> Self {
        Self { modern: ProgramServer::start(server(modern)), older: ProgramServer::start(server(older)) }
    }

    fn configure(&self, folder: &Path) {
        let text = format!("[servers.modern]\n{}[servers.older]\n{}", self.modern.lines(), self.older.lines());
        fs::write(folder.join("lockkeeper.toml"), text).unwrap();
    }

    /// The number of times each server was asked what it is.
    fn asked(&self) -> (usize, usize) {
        let of = |server: &ProgramServer| server.journal().text().matches("server/discover").count();
        (of(&self.modern), of(&self.older))
    }
}

/// The status of the two servers, after their starts.
async fn settled(gateway: &Gateway, folder: &Path) -> Vec<EraStatus> {
    while gateway.get("/readyz", None).await.status() != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let control = ControlFile::read(folder).unwrap().unwrap();
    let response = gateway.get("/api/status", Some(control.token.expose())).await;
    let mut status: Status = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    // a server that needs attention comes first
    status.backends.sort_by(|one, other| one.id.cmp(&other.id));
    status.backends.into_iter().map(|backend| backend.era.unwrap()).collect()
}

/// The output of `lockkeeper status`.
async fn printed(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(["status", "--verbose", "--data-dir"]).arg(folder).current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_restarted_gateway_knows_the_eras_of_its_servers() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let servers = Servers::start("modern", "code-32601");
    servers.configure(folder);
    let gateway = Gateway::start(folder).await;
    let first = settled(&gateway, folder).await;
    gateway.stop().await;
    let told = |eras: &[EraStatus]| eras.iter().map(|era| (era.era.clone(), era.found)).collect::<Vec<_>>();
    let expected =
        |found: [EraSource; 2]| ["modern", "legacy"].map(str::to_owned).into_iter().zip(found).collect::<Vec<_>>();
    assert_eq!(told(&first), expected([EraSource::Probed; 2]));
    assert_eq!(servers.asked(), (1, 1), "a server with sessions is asked in one, for the status alone");

    let gateway = Gateway::start(folder).await;
    let again = settled(&gateway, folder).await;
    assert_eq!(told(&again), expected([EraSource::Cached; 2]));
    let since = |eras: &[EraStatus]| eras.iter().map(|era| era.since.clone()).collect::<Vec<_>>();
    assert_eq!(since(&again), since(&first));
    // a server that is known to speak 2026-07-28 is still asked for its server information
    assert_eq!(servers.asked(), (2, 2));
    let printed = printed(folder).await;
    assert!(printed.contains("modern, cached") && printed.contains("legacy, cached"), "{printed}");
    assert_eq!(servers.asked(), (2, 2), "once is enough");
    gateway.stop().await;

    // other servers under the same names
    let others = Servers::start("only", "exit");
    others.configure(folder);
    let gateway = Gateway::start(folder).await;
    assert_eq!(told(&settled(&gateway, folder).await), expected([EraSource::Probed; 2]));
    gateway.stop().await;
    servers.configure(folder);
    let gateway = Gateway::start(folder).await;
    assert_eq!(
        told(&settled(&gateway, folder).await),
        expected([EraSource::Probed; 2]),
        "what was left out is forgotten"
    );
    gateway.stop().await;
}
