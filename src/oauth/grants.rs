//! Grants and clients for people: the account page and the command line. Knows nothing of tokens' form.

use super::{Error, OAuth, RedirectTarget};
use crate::model::{Client, ClientId, Grant, GrantId, UserId};

/// A grant with what people know its client by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// The grant.
    pub grant: Grant,
    /// What the client calls itself.
    pub client_name: String,
    /// Where the client was answered.
    pub redirect: RedirectTarget,
}

impl OAuth {
    /// The live grants of a user, newest first.
    pub async fn grants_of(&self, user: &UserId) -> Result<Vec<GrantView>, Error> {
        let _ = user;
        Err(Error::Unfinished)
    }

    /// The live grants of everybody, newest first.
    pub async fn list_grants(&self) -> Result<Vec<GrantView>, Error> {
        Err(Error::Unfinished)
    }

    /// Revokes a grant of this user: its tokens and streams end within a second. False where there is no such live one.
    pub async fn revoke_grant(&self, user: &UserId, grant: &GrantId) -> Result<bool, Error> {
        let _ = (user, grant);
        Err(Error::Unfinished)
    }

    /// Revokes every grant of a user and says how many there were.
    pub async fn revoke_all(&self, user: &UserId) -> Result<u64, Error> {
        let _ = user;
        Err(Error::Unfinished)
    }

    /// Every registered client, newest first.
    pub async fn list_clients(&self) -> Result<Vec<Client>, Error> {
        Err(Error::Unfinished)
    }

    /// One registered client.
    pub async fn client(&self, client: &ClientId) -> Result<Option<Client>, Error> {
        let _ = client;
        Err(Error::Unfinished)
    }

    /// Deletes a client and revokes its grants. False where there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Error> {
        let _ = client;
        Err(Error::Unfinished)
    }
}
