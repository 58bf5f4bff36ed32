//! OAuth clients: registrations, and the documents that describe them.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{ClientId, InitialAccessTokenId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    Registered {
        client: ClientId,
        /// The name that the client claims.
        name: String,
        from: IpAddr,
    },
    /// A client registered again with the same data.
    Known {
        client: ClientId,
        from: IpAddr,
    },
    /// A client registered with an initial access token.
    RegisteredByToken {
        client: ClientId,
        token: InitialAccessTokenId,
    },
    RegistrationAllowed(InitialAccessTokenId),
    RegistrationDisallowed(InitialAccessTokenId),
    Created(ClientId),
    Revoked(ClientId),
    Restored(ClientId),
    /// A client's metadata document was read, for the first time or with new content.
    DocumentRead {
        client: ClientId,
        name: String,
    },
    /// A client's metadata document cannot be used.
    DocumentRefused {
        client: ClientId,
        /// The reason, which is not revealed to the client.
        reason: String,
    },
    /// Members that people consented to changed in a client's metadata document: its grants are revoked.
    DocumentChanged(ClientId),
}

// === impl ClientEvent ===

impl ClientEvent {
    pub(super) fn line(&self) -> AuditLine {
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
            Self::Revoked(client) => L::new("client_revoked", "client revoked").with("client", client),
            Self::Restored(client) => L::new("client_restored", "client restored").with("client", client),
            Self::DocumentRead { client, name } => {
                L::new("client_document_read", "the metadata document of a client was read")
                    .with("client", client)
                    .with("name", name)
            }
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
