//! The events of the audit trail. None holds a secret. Know nothing of logs and tables.

use std::{fmt, net::IpAddr};

use super::line::AuditLine;
use crate::model::{BackendId, ClientId, Endpoint, Grant, GrantId, InitialAccessTokenId, KeyId, Scopes, UserId};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditEvent {
    /// A person logged in on a page.
    Login {
        /// The user.
        user: UserId,
        /// The API key or account.
        key: KeyId,
    },
    /// A person logged out.
    Logout {
        /// The user.
        user: Option<UserId>,
    },
    /// A person who came from a provider is not let in.
    LoginRefused {
        /// The name of the provider in the configuration.
        provider: String,
        /// The reason, without the provider's own words.
        reason: String,
    },
    /// A wrong API key, on a page or as a credential.
    KeyRefused {
        /// The client's address.
        from: IpAddr,
    },
    /// A valid API key where it opens nothing.
    KeyMisplaced {
        /// The key.
        key: Option<KeyId>,
        /// Its rights.
        reason: &'static str,
    },
    /// An access token that opens nothing.
    TokenRefused {
        /// Its grant, if it was signed here.
        grant: Option<GrantId>,
        /// The reason, which the client is not told.
        reason: String,
    },
    /// A request of a client that is refused.
    RequestRefused {
        /// The error code that the client gets.
        error: &'static str,
        /// The reason.
        reason: String,
    },
    /// A person approved a client.
    Consent {
        /// The user.
        user: UserId,
        /// The client.
        client: ClientId,
        /// The grant that this made.
        grant: GrantId,
        /// The endpoint that it opens.
        endpoint: Endpoint,
        /// Its scopes.
        scopes: Scopes,
    },
    /// A person denied a client; without a login nobody knows who.
    Denial {
        /// The user.
        user: Option<UserId>,
        /// The client.
        client: ClientId,
    },
    /// A code became tokens.
    CodeRedeemed(GrantParties),
    /// A code came a second time: its grant is revoked.
    CodeReplayed(GrantParties),
    /// A refresh token came again after its successor: its grant is revoked.
    RefreshReused(GrantParties),
    /// A grant was revoked.
    GrantRevoked {
        /// The grant.
        grant: GrantId,
        /// The user, if it was the one who gave it.
        user: Option<UserId>,
        /// Revoker.
        by: Revoker,
    },
    /// Several grants were revoked at once.
    GrantsRevoked {
        /// Of this user; `None`: of any.
        user: Option<UserId>,
        /// To this client; `None`: to any.
        client: Option<ClientId>,
        /// Their number.
        count: u64,
        /// Revoker.
        by: Revoker,
    },
    /// A client revoked one access token.
    TokenRevoked(GrantParties),
    /// A registered client.
    Client(ClientEvent),
    /// A key.
    Key(KeyEvent),
    /// A user was disabled, enabled or deleted.
    User(UserId, UserChange),
    /// The gateway runs with another configuration.
    ConfigurationChanged {
        /// The servers that were added, removed and replaced, and what waits for the next start.
        summary: String,
    },
    /// A user connected a server with an account of theirs there.
    UpstreamConnected(UserId, BackendId),
    /// The connection of a user to a server ended.
    UpstreamDisconnected(UserId, BackendId),
}

/// An event of a registered client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// A client registered.
    Registered {
        /// Its id.
        client: ClientId,
        /// The name that it claims.
        name: String,
        /// Its address.
        from: IpAddr,
    },
    /// A client registered as it had before.
    Known {
        /// Its id.
        client: ClientId,
        /// Its address.
        from: IpAddr,
    },
    /// A client registered with an initial access token.
    RegisteredByToken {
        /// Its id.
        client: ClientId,
        /// The id of the token.
        token: InitialAccessTokenId,
    },
    /// The operator created an initial access token.
    RegistrationAllowed(InitialAccessTokenId),
    /// The operator revoked an initial access token.
    RegistrationDisallowed(InitialAccessTokenId),
    /// The operator registered a client.
    Created(ClientId),
    /// The service account of a client got a token.
    ServiceToken(GrantParties),
    /// The operator revoked a client.
    Revoked(ClientId),
    /// The operator restored a client.
    Restored(ClientId),
    /// The metadata document of a client cannot be used.
    DocumentRefused {
        /// Its URL, the id of the client.
        client: ClientId,
        /// The reason, which the client is not told.
        reason: String,
    },
    /// Members that people consented to changed in the metadata document of a client: its grants are revoked.
    DocumentChanged(ClientId),
}

/// An event of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEvent {
    /// An API key or account was created.
    Created {
        /// Its id.
        key: KeyId,
        /// Its user.
        user: UserId,
        /// The kind: `key`, or that of an account.
        kind: &'static str,
    },
    /// An API key took the place of another.
    Rotated {
        /// The old one.
        key: KeyId,
        /// The new one.
        successor: KeyId,
        /// Its user.
        user: UserId,
    },
    /// An API key or account was revoked.
    Revoked(KeyId),
    /// Somebody who is logged in with the key entered the code of a device that does not wait.
    DeviceCodeRefused {
        /// Its id.
        key: KeyId,
        /// Its user.
        user: UserId,
        /// The address of the browser.
        from: IpAddr,
    },
    /// A valid API key, or what rests on it, came from outside of the networks of the key.
    Elsewhere {
        /// Its id.
        key: KeyId,
        /// The client's address.
        from: IpAddr,
    },
    /// The rights of an API key or account changed.
    RightsChanged(KeyId),
    /// A signing key was created.
    SigningCreated(String),
    /// A signing key was withdrawn.
    SigningWithdrawn(String),
    /// The master key was replaced.
    MasterRotated,
}

/// The parties of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantParties {
    /// The grant.
    pub grant: GrantId,
    /// Its user.
    pub user: UserId,
    /// Its client.
    pub client: ClientId,
}

/// Revoker of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoker {
    /// The operator, on the command line.
    Operator,
    /// A person, with this key.
    Holder(KeyId),
    /// The client.
    Client(ClientId),
    /// The OpenID provider of this issuer, which reported a logout or ended a login.
    Provider(String),
}

/// Change of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserChange {
    /// Nothing of the user works until it is enabled.
    Disabled,
    /// The user may log in again.
    Enabled,
    /// Everything of the user is gone.
    Deleted,
}

// === impl AuditEvent ===

impl AuditEvent {
    /// Its names and texts.
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Login { user, key } => L::new("login", "login").with("user", user).with("key", key),
            Self::Logout { user } => L::new("logout", "logout").maybe("user", user.as_ref()),
            Self::LoginRefused { provider, reason } => L::new("login_refused", "login through a provider refused")
                .with("name", provider)
                .with("reason", reason),
            Self::KeyRefused { from } => L::alarming("key_refused", "API key refused").with("ip", from),
            Self::KeyMisplaced { key, reason } => {
                L::new("key_misplaced", "API key refused").maybe("key", key.as_ref()).with("reason", reason)
            }
            Self::TokenRefused { grant, reason } => {
                L::new("token_refused", "access token refused").maybe("grant", grant.as_ref()).with("reason", reason)
            }
            Self::RequestRefused { error, reason } => {
                L::new("request_refused", "OAuth request refused").with("error", error).with("reason", reason)
            }
            Self::Consent { user, client, grant, endpoint, scopes } => L::new("consent", "authorization approved")
                .with("user", user)
                .with("client", client)
                .with("grant", grant)
                .with("endpoint", endpoint)
                .with("scopes", scopes),
            Self::Denial { user, client } => {
                L::new("denial", "authorization denied").maybe("user", user.as_ref()).with("client", client)
            }
            Self::CodeRedeemed(parties) => parties.line(L::new("code_redeemed", "code redeemed")),
            Self::CodeReplayed(parties) => {
                parties.line(L::alarming("code_replayed", "code used twice; the grant is revoked"))
            }
            Self::RefreshReused(parties) => {
                parties.line(L::alarming("refresh_reused", "refresh token reused; the grant is revoked"))
            }
            Self::TokenRevoked(parties) => parties.line(L::new("token_revoked", "access token revoked by its client")),
            Self::GrantRevoked { grant, user, by } => L::new("grant_revoked", "grant revoked")
                .maybe("user", user.as_ref())
                .with("grant", grant)
                .with("by", by),
            Self::GrantsRevoked { user, client, count, by } => L::new("grants_revoked", "grants revoked")
                .maybe("user", user.as_ref())
                .maybe("client", client.as_ref())
                .with("count", count)
                .with("by", by),
            Self::Client(event) => event.line(),
            Self::Key(event) => event.line(),
            Self::User(user, change) => change.line().with("user", user),
            Self::ConfigurationChanged { summary } => {
                L::new("configuration_changed", "configuration changed").with("reason", summary)
            }
            Self::UpstreamConnected(user, backend) => L::new("upstream_connected", "account at a server connected")
                .with("user", user)
                .with("backend", backend),
            Self::UpstreamDisconnected(user, backend) => {
                L::new("upstream_disconnected", "account at a server disconnected")
                    .with("user", user)
                    .with("backend", backend)
            }
        }
    }
}

// === impl UserChange ===

impl UserChange {
    const fn line(self) -> AuditLine {
        match self {
            Self::Disabled => AuditLine::new("user_disabled", "user disabled"),
            Self::Enabled => AuditLine::new("user_enabled", "user enabled"),
            Self::Deleted => AuditLine::new("user_deleted", "user deleted"),
        }
    }
}

// === impl ClientEvent ===

impl ClientEvent {
    fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Registered { client, name, from } => L::new("client_registered", "client registered")
                .with("client", client)
                .with("name", name)
                .with("ip", from),
            Self::Known { client, from } => {
                L::new("client_known", "client registered again").with("client", client).with("ip", from)
            }
            Self::RegisteredByToken { client, token } => {
                L::new("initial_access_token_used", "client registered with an initial access token")
                    .with("client", client)
                    .with("key", token)
            }
            Self::RegistrationAllowed(token) => {
                L::new("initial_access_token_created", "initial access token created").with("key", token)
            }
            Self::RegistrationDisallowed(token) => {
                L::new("initial_access_token_revoked", "initial access token revoked").with("key", token)
            }
            Self::Created(client) => {
                L::new("client_created", "client registered by the operator").with("client", client)
            }
            Self::ServiceToken(parties) => parties.line(L::new("service_token", "token issued to a service account")),
            Self::Revoked(client) => L::new("client_revoked", "client revoked").with("client", client),
            Self::Restored(client) => L::new("client_restored", "client restored").with("client", client),
            Self::DocumentRefused { client, reason } => {
                L::new("client_document_refused", "the metadata document of a client was not accepted")
                    .with("client", client)
                    .with("reason", reason)
            }
            Self::DocumentChanged(client) => {
                L::new("client_document_changed", "a client changed its metadata document; its grants are revoked")
                    .with("client", client)
            }
        }
    }
}

// === impl KeyEvent ===

impl KeyEvent {
    fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Created { key, user, kind } => L::new("key_created", "API key or account created")
                .with("user", user)
                .with("key", key)
                .with("kind", kind),
            Self::Rotated { key, successor, user } => L::new("key_rotated", "API key rotated")
                .with("user", user)
                .with("key", key)
                .with("successor", successor),
            Self::Revoked(key) => L::new("key_revoked", "API key revoked").with("key", key),
            Self::DeviceCodeRefused { key, user, from } => L::alarming("device_code_refused", "device code refused")
                .with("user", user)
                .with("key", key)
                .with("ip", from),
            Self::Elsewhere { key, from } => {
                L::alarming("key_elsewhere", "address outside of the networks of an API key")
                    .with("key", key)
                    .with("ip", from)
            }
            Self::RightsChanged(key) => L::new("rights_changed", "rights changed").with("key", key),
            Self::SigningCreated(kid) => L::new("signing_key_created", "signing key created").with("key", kid),
            Self::SigningWithdrawn(kid) => L::new("signing_key_withdrawn", "signing key withdrawn").with("key", kid),
            Self::MasterRotated => L::new("master_key_rotated", "master key rotated"),
        }
    }
}

// === impl GrantParties ===

impl GrantParties {
    /// The parties of this grant.
    pub fn of(grant: &Grant) -> Self {
        Self { grant: grant.id.clone(), user: grant.user.clone(), client: grant.client.clone() }
    }

    fn line(&self, line: AuditLine) -> AuditLine {
        line.with("user", &self.user).with("client", &self.client).with("grant", &self.grant)
    }
}

impl fmt::Display for Revoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("operator"),
            Self::Holder(key) => write!(f, "key {key}"),
            Self::Client(client) => write!(f, "client {client}"),
            Self::Provider(issuer) => write!(f, "provider {issuer}"),
        }
    }
}
