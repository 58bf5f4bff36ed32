//! The gateway in front of a protected server, with two users.

use std::path::Path;

use lockkeeper::{
    app::App,
    config::{self, CommandLineOptions, Environment},
    model::UserId,
    storage::Storage,
    telemetry::Telemetry,
};
use tokio::{sync::oneshot, task::JoinSet};

use super::{person::Person, protected_server::ProtectedServer};
use crate::support::data_folder::DataFolder;

/// Gateway and server.
pub(super) struct World {
    pub(super) server: ProtectedServer,
    pub(super) url: String,
    pub(super) folder: DataFolder,
    stop: oneshot::Sender<()>,
    running: JoinSet<anyhow::Result<()>>,
}

// === impl World ===

impl World {
    pub(super) async fn new() -> Self {
        Self::in_mode("oauth", "").await
    }

    /// A gateway with this value of `auth`, and further options, in which `ISSUER` is the server's.
    pub(super) async fn in_mode(auth: &str, options: &str) -> Self {
        Self::of(ProtectedServer::start().await, auth, options).await
    }

    /// The same in front of this server.
    pub(super) async fn of(server: ProtectedServer, auth: &str, options: &str) -> Self {
        let options = options.replace("ISSUER", &server.issuer());
        let folder = DataFolder::new();
        let text = format!("[servers.github]\nurl = \"{}\"\nauth = \"{auth}\"\n{options}\n", server.url);
        std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let (url, stop, running) = start(folder.path()).await;
        Self { server, url, folder, stop, running }
    }

    /// A user with a key.
    pub(super) fn person(&self, user: &str) -> Person {
        Person::new(&self.url, self.folder.path(), user)
    }

    /// A user who has connected the account of the same name.
    pub(super) async fn connected(&self, user: &str) -> Person {
        let mut person = self.person(user);
        self.server.account(user);
        person.log_in().await;
        person.connect("/connect/github").await;
        self.server.take_log();
        person
    }

    /// The store of the running gateway.
    pub(super) async fn storage(&self) -> Storage {
        Storage::open(&self.folder.path().join("lockkeeper.sqlite3")).await.unwrap()
    }

    /// Number of logins of a user that are stored.
    pub(super) async fn logins(&self, user: &str) -> usize {
        let storage = self.storage().await;
        let logins = storage.upstream_tokens().list(Some(&UserId::new(user))).await.unwrap().len();
        storage.close().await;
        logins
    }

    /// Ends the gateway and starts it again, with another configuration.
    pub(super) async fn restart(self, configuration: &str) -> Self {
        let Self { server, folder, stop, running: mut before, .. } = self;
        stop.send(()).unwrap();
        before.join_next().await.unwrap().unwrap().unwrap();
        std::fs::write(folder.path().join("lockkeeper.toml"), configuration).unwrap();
        let (url, stop, running) = start(folder.path()).await;
        Self { server, url, folder, stop, running }
    }

    /// Waits until the authorization server has logged this.
    pub(super) async fn heard(&self, text: &str) {
        let heard = async {
            while !self.server.take_log().iter().any(|line| line == text) {
                self.server.logged().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), heard).await.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "the test stands for `main` here")]
async fn start(folder: &Path) -> (String, oneshot::Sender<()>, JoinSet<anyhow::Result<()>>) {
    let given = CommandLineOptions {
        listen: Some("127.0.0.1:0".to_owned()),
        data_dir: Some(folder.to_owned()),
        ..CommandLineOptions::default()
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let environment: Environment = [("PATH", path.as_str())].into_iter().collect();
    let config = config::load(&given, &environment, folder).unwrap();
    let app = Box::pin(App::build(config, Telemetry::detached().unwrap())).await.unwrap();
    let url = app.public_url().to_string();
    let (stop, stopped) = oneshot::channel();
    let mut served = JoinSet::new();
    served.spawn(app.serve(async { drop(stopped.await) }));
    (url, stop, served)
}
