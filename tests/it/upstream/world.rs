//! The gateway in front of a protected server, with two users.

use lockkeeper::{model::UserId, storage::Storage};
use serde_json::json;
use url::Url;

use crate::{
    kit::{
        authority::{Endpoint, ScriptedAuthority},
        gateway::{Gateway, make_key},
        person::Person,
        protected::ProtectedServer,
    },
    support::data_folder::DataFolder,
};

/// Gateway and server.
pub(super) struct World {
    pub(super) server: ProtectedServer,
    /// That of the server.
    pub(super) authority: ScriptedAuthority,
    pub(super) gateway: Gateway,
    pub(super) folder: DataFolder,
}

// === impl World ===

impl World {
    pub(super) async fn new() -> Self {
        Self::in_mode("oauth", "").await
    }

    /// A gateway with this value of `auth`, and further options, in which `ISSUER` is the server's.
    pub(super) async fn in_mode(auth: &str, options: &str) -> Self {
        Self::of(protected_server().await, auth, options).await
    }

    /// The same in front of this server.
    pub(super) async fn of(server: ProtectedServer, auth: &str, options: &str) -> Self {
        let options = options.replace("ISSUER", server.authority.issuer());
        let folder = DataFolder::new();
        let text = format!("[servers.github]\nurl = \"{}\"\nauth = \"{auth}\"\n{options}\n", server.url);
        std::fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let gateway = Gateway::start(folder.path()).await;
        Self { authority: server.authority.clone(), server, gateway, folder }
    }

    /// A user with a key.
    pub(super) fn person(&self, user: &str) -> Person {
        let key = make_key(self.folder.path(), &["--user", user, "--direct"], &[]);
        Person::new(&self.gateway.url, &key)
    }

    /// A user who has connected the account of the same name.
    pub(super) async fn connected(&self, user: &str) -> Person {
        let mut person = self.person(user);
        self.authority.account(user);
        person.log_in().await;
        person.connect("/connect/github").await;
        self.authority.take_log();
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
        let Self { server, authority, folder, gateway } = self;
        gateway.stop().await;
        std::fs::write(folder.path().join("lockkeeper.toml"), configuration).unwrap();
        let gateway = Gateway::start(folder.path()).await;
        Self { server, authority, gateway, folder }
    }

    /// Waits until the authorization server has recorded this.
    pub(super) async fn heard(&self, text: &str) {
        let heard = async {
            while !self.authority.take_log().iter().any(|line| line == text) {
                self.authority.arrived().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), heard).await.unwrap();
    }
}

/// A protected server whose authorization server gives secrets to clients, and names itself in its answers.
pub(super) async fn protected_server() -> ProtectedServer {
    let server = ProtectedServer::start().await;
    let metadata = json!({
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    });
    server.authority.differs(Endpoint::Metadata, metadata);
    server.authority.differs(Endpoint::Resource, json!({ "scopes_supported": ["read"] }));
    server
}

/// The path and query of an address of the gateway in an elicitation.
pub(super) fn page_in(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}
