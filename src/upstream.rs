//! Accounts and secrets of users at servers behind the gateway. For each user, the gateway is an OAuth client of
//! protected servers (`UP-1` to `UP-11`): it connects the user's account, keeps the tokens in the vault, and refreshes
//! and revokes them. Users also enter the secrets that servers need.
//!
//! A login belongs to a user and a server, a secret to a user and a name. [`Upstream::access`] is for `backend`;
//! [`Upstream::connections`], [`Upstream::logins`] and [`Upstream::secrets`] are for pages and commands.

mod access;
mod account_tokens;
mod assertion;
mod connections;
mod context;
mod error;
mod identity;
mod keeper;
mod keepers;
mod login;
mod metadata;
mod own_tokens;
mod recent_discoveries;
mod servers;
mod sign_assertion;
mod ticket;
mod user_secrets;
mod withdrawal;

use std::{fmt, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    access::AccessSources, context::UpstreamContext, keepers::Keepers, servers::ProtectedServers,
    withdrawal::Withdrawal,
};
pub use self::{
    connections::{ConnectionView, Connections, LoginView},
    context::UpstreamDeps,
    error::UpstreamError,
    login::{LoginBeginning, LoginOutcome, LoginPreview, LoginProblem, Logins, ServerLogin},
    sign_assertion::SignAssertion,
    ticket::TicketRefusal,
    user_secrets::{SecretView, UserSecrets},
};
use crate::model::{BackendSpec, ServerAccess};
pub use crate::oauth_client::LoginError;

/// The gateway as a client of protected servers. Cheap to clone.
#[derive(Clone)]
pub struct Upstream(Arc<UpstreamServices>);

struct UpstreamServices {
    context: UpstreamContext,
    servers: Arc<ProtectedServers>,
    access: ServerAccess,
    connections: Connections,
    logins: Logins,
    secrets: UserSecrets,
}

// === impl Upstream ===

impl Upstream {
    /// Creates the client for these servers; its tasks run on `tracker` until `cancel`.
    pub fn new(deps: UpstreamDeps, specs: &[BackendSpec], tracker: TaskTracker, cancel: CancellationToken) -> Self {
        let context = UpstreamContext::new(deps);
        let servers = Arc::new(ProtectedServers::new(specs));
        let keepers = Arc::new(Keepers::new(context.clone(), tracker, cancel));
        let secrets = UserSecrets::new(context.clone(), specs);
        let (of_servers, of_users) = (Arc::clone(&servers), Arc::clone(&keepers));
        let sources = AccessSources { servers: of_servers, keepers: of_users, secrets: secrets.clone() };
        let access = access::server_access(&context, &sources);
        let connections = Connections::new(context.clone(), Arc::clone(&servers));
        let logins = Logins::new(context.clone(), Arc::clone(&servers), Arc::clone(&keepers));
        Self(Arc::new(UpstreamServices { context, servers, access, connections, logins, secrets }))
    }

    /// Access to the servers, for code that connects to them.
    pub fn access(&self) -> &ServerAccess {
        &self.0.access
    }

    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// Logins at authorization servers.
    pub fn logins(&self) -> &Logins {
        &self.0.logins
    }

    /// The secrets that users enter.
    pub fn secrets(&self) -> &UserSecrets {
        &self.0.secrets
    }

    /// The metadata document of the gateway as a client, for a server (`UP-4`).
    pub fn client_metadata(&self, file: &str) -> Option<serde_json::Value> {
        metadata::document(&self.0.context.issuer, file)
    }

    /// Replaces the servers. Tokens end if their server is gone or has another address (`UP-10`).
    pub fn replace_servers(&self, specs: &[BackendSpec]) {
        self.0.servers.replace(specs);
        self.0.secrets.replace_servers(specs);
    }

    /// Announces tokens and secrets that were deleted, and revokes the tokens, until `cancel`. Run it on the app's task
    /// tracker.
    pub async fn watch(&self, cancel: CancellationToken) {
        let withdrawal = Withdrawal::new(self.0.context.clone(), Arc::clone(&self.0.servers), self.0.secrets.clone());
        withdrawal.run(cancel).await;
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream(…)")
    }
}
