//! First access to a new gateway: on a terminal, an API key is shown. Otherwise the output may be kept in a log, so it
//! is an invitation.

use super::App;
use crate::{oauth::OAuthError, support::Secret};

/// Credential for the first access.
#[derive(Debug, Clone)]
pub enum FirstAccess {
    /// An API key of the owner.
    Key(Secret),
    /// The address where the owner gets a key, once. Only its path, if no public URL is configured.
    Invitation(Secret),
}

/// Kind of first access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstAccessForm {
    /// An API key that is shown once.
    Key,
    /// An invitation to get a key.
    Invitation,
}

impl App {
    /// Creates the first access if there was never a key. The result must be shown: it is returned only once. While an
    /// invitation is open, there is no second one.
    pub async fn first_access(&self, form: FirstAccessForm) -> Result<Option<FirstAccess>, OAuthError> {
        let oauth = &self.parts.oauth;
        Ok(match form {
            FirstAccessForm::Key => oauth.keys().first().await?.map(FirstAccess::Key),
            FirstAccessForm::Invitation => oauth.invitations().first().await?.map(|secret| {
                FirstAccess::Invitation(Secret::new(format!("{}/invite?i={}", self.public_url(), secret.expose())))
            }),
        })
    }
}
