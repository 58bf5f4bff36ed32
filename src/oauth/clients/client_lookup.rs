//! Looks up clients by their id, from either source: the table of registrations, or the document that the id names
//! (`OA-45`).
//!
//! A stranger's document is read only where a person is about to look, which is at the authorization endpoint and for a
//! waiting device, and that person is charged. The other endpoints serve only clients with a consent, so other callers
//! cannot make them read anything.

use std::time::Duration;

use super::client_documents::{ClientDocuments, ClientUrl, DocumentProblem};
use crate::{
    audit::ClientEvent,
    fetch::{DocumentError, EgressFault, FetchLimit, LimitedBy},
    model::{Client, ClientId, ClientIp, Registrant},
    oauth::{dependencies::OAuthDeps, error::OAuthError},
    storage::StoredDocument,
};

/// Interval for recording in the store that a document was confirmed again.
const TOLD_EVERY: Duration = Duration::from_hours(1);

/// Why a client may not ask a person for anything. The text is for that person (`OA-53`).
#[derive(Debug, thiserror::Error)]
pub(in crate::oauth) enum ClientRefusal {
    /// It never registered, its registration has expired, or the operator revoked it.
    #[error(
        "The gateway does not know this client. Remove the server from your MCP client, clear the authorization it has \
         stored for it, and add it again."
    )]
    Unknown,
    /// No documents are read here.
    #[error(
        "This gateway reads no metadata documents of clients: the app has to register, or the operator has to allow its \
         document."
    )]
    NoDocuments,
    /// Its id is an https URL that names no document.
    #[error(
        "The client id is an https URL, but not one of a metadata document: it needs a path, and has no query, fragment, \
         user, port 443 or dot segments in it."
    )]
    Malformed,
    /// The operator revoked it.
    #[error("The operator of this gateway has revoked the app of {0}.")]
    Revoked(String),
    /// The operator does not trust its host.
    #[error("The operator of this gateway does not allow apps of {0}.")]
    Untrusted(String),
    /// Its document cannot be read, or is invalid.
    #[error(
        "The app is described by a document at {0}, which could not be read or is not valid. Try again in a minute; if \
         that does not help, tell the developers of the app."
    )]
    Unreadable(String),
    /// This gateway can read no documents.
    #[error(
        "The app is described by a document at {host}, which this gateway cannot read: {fault}. Its operator can let the \
         gateway out to that host, directly or by a proxy (`egress_proxy`), or have apps register instead \
         (`client_documents = \"off\"`)."
    )]
    NoEgress {
        /// The host of the document.
        host: String,
        fault: EgressFault,
    },
    /// Too many documents were requested from one network (N-44).
    #[error("Too many different apps were tried from your network. Wait a minute, and try again.")]
    Limited(Duration),
    /// Too many documents of one host were requested, by all networks together (N-44).
    #[error("Too many different apps of {0} were tried at this gateway. Wait a minute, and try again.")]
    HostLimited(String, Duration),
    #[error(transparent)]
    Failed(#[from] OAuthError),
}

/// The client of an authorization request (`OA-63`). Requests that are made to read it are charged to `from`.
pub(in crate::oauth) async fn of_request(
    deps: &OAuthDeps,
    id: &ClientId,
    from: ClientIp,
) -> Result<Client, ClientRefusal> {
    find(deps, id, Some(from)).await
}

/// The client of a checked request that a person is deciding about.
pub(in crate::oauth) async fn of_waiting(deps: &OAuthDeps, id: &ClientId) -> Result<Client, ClientRefusal> {
    find(deps, id, None).await
}

async fn find(deps: &OAuthDeps, id: &ClientId, source: Option<ClientIp>) -> Result<Client, ClientRefusal> {
    if ClientUrl::is_meant(id.as_str()) {
        return described(deps, id, source).await;
    }
    let lookup = async || deps.storage.clients().lookup(id).await.map_err(OAuthError::from);
    if let Some(client) = lookup().await? {
        return Ok(client);
    }
    // an app that still has its id comes back (OA-43); it would not register again by itself
    if deps.storage.client_expiry().revive(id, deps.now()).await.map_err(OAuthError::from)? {
        return lookup().await?.ok_or(ClientRefusal::Unknown);
    }
    Err(ClientRefusal::Unknown)
}

/// The client that presents something based on a consent, such as a code or a token. `None` if it cannot have a
/// consent. If its document has changed since the consent, its grants are revoked before this returns (`OA-52`).
pub(in crate::oauth) async fn of_consent(deps: &OAuthDeps, id: &ClientId) -> Result<Option<Client>, OAuthError> {
    if !ClientUrl::is_meant(id.as_str()) {
        return Ok(deps.storage.clients().lookup(id).await?);
    }
    let (Some(url), Some(documents)) = (ClientUrl::parse(id.as_str()), &deps.client_documents) else {
        return Ok(None);
    };
    let StoredDocument::Consented { text, read, consented } = deps.storage.client_documents().lookup(id).await? else {
        return Ok(None);
    };
    documents.remember(&url, &text, read);
    let client = match documents.read_or_stale(&url).await {
        Ok(client) => client,
        Err(problem) => {
            refused(deps, documents, id, &problem);
            return Ok(None);
        }
    };
    let is_same = client.registrant == Registrant::Document(consented);
    if !is_same || client.created.since(read) > TOLD_EVERY {
        keep(deps, &client).await?;
    }
    Ok(Some(client))
}

/// Keeps the client that gets a consent, if it has a document.
pub(in crate::oauth) async fn keep(deps: &OAuthDeps, client: &Client) -> Result<(), OAuthError> {
    let Registrant::Document(consented) = &client.registrant else { return Ok(()) };
    let void = deps.storage.client_documents().keep(client, consented).await?;
    if void > 0 {
        deps.audit.record(ClientEvent::DocumentChanged(client.id.clone()));
    }
    Ok(())
}

/// A client as its document describes it now. Without a `source`, the description may be a day old.
async fn described(deps: &OAuthDeps, id: &ClientId, source: Option<ClientIp>) -> Result<Client, ClientRefusal> {
    let documents = deps.client_documents.as_ref().ok_or(ClientRefusal::NoDocuments)?;
    let url = ClientUrl::parse(id.as_str()).ok_or(ClientRefusal::Malformed)?;
    let host = || url.host().to_owned();
    let stored = deps.storage.client_documents().lookup(id).await.map_err(OAuthError::from)?;
    if stored == StoredDocument::Revoked {
        return Err(ClientRefusal::Revoked(host()));
    }
    // strangers who try others of the same host cannot lock out a client with a consent
    let is_consented = matches!(stored, StoredDocument::Consented { .. });
    let found = match source {
        Some(from) => documents.read(&url, (!is_consented).then_some(from)).await,
        None => documents.read_or_stale(&url).await,
    };
    if let Ok(client) = &found
        && documents.is_news(id, &client.metadata)
    {
        deps.audit.record(ClientEvent::DocumentRead { client: id.clone(), name: client.name.clone() });
    }
    found.map_err(|problem| {
        refused(deps, documents, id, &problem);
        match problem {
            DocumentProblem::Untrusted => ClientRefusal::Untrusted(host()),
            DocumentProblem::NoEgress { fault, .. } => ClientRefusal::NoEgress { host: host(), fault },
            DocumentProblem::Unreadable(DocumentError::Limited(FetchLimit { wait, by })) => match by {
                LimitedBy::Network => ClientRefusal::Limited(wait),
                LimitedBy::Host => ClientRefusal::HostLimited(host(), wait),
            },
            DocumentProblem::Unreadable(_) => ClientRefusal::Unreadable(host()),
        }
    })
}

/// Only the log gets the reason, because strangers could learn from it about this network (`OA-53`).
fn refused(deps: &OAuthDeps, documents: &ClientDocuments, client: &ClientId, problem: &DocumentProblem) {
    let reason = match problem {
        // the same text for any waiting time
        DocumentProblem::Unreadable(DocumentError::Limited(_)) => "too many documents were asked for".to_owned(),
        problem => problem.to_string(),
    };
    if documents.is_news(client, &reason) {
        deps.audit.record(ClientEvent::DocumentRefused { client: client.clone(), reason });
    }
}
