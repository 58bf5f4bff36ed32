//! The first access to a new gateway: a key on a terminal, which a person sees; elsewhere an invitation, since a log keeps what is
//! printed. Knows nothing of output.

use super::App;
use crate::{oauth::OAuthError, support::Secret};

/// The first access to a gateway.
#[derive(Debug, Clone)]
pub enum FirstAccess {
    /// A key of the owner.
    Key(Secret),
    /// The address at which the owner gets a key, once; its path alone, if the configuration does not say where the gateway is.
    Invitation(Secret),
}

/// Form of the first access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstAccessForm {
    /// A key.
    Key,
    /// An invitation.
    Invitation,
}

impl App {
    /// Makes the first access, if there never was a key; it is returned once, and has to be shown. Of an invitation that waits
    /// there is no second.
    pub async fn first_access(&self, form: FirstAccessForm) -> Result<Option<FirstAccess>, OAuthError> {
        let oauth = &self.parts.oauth;
        Ok(match form {
            FirstAccessForm::Key => oauth.keys().first().await?.map(FirstAccess::Key),
            FirstAccessForm::Invitation => oauth.invitations().first().await?.map(|secret| {
                let root = self.configured_url.as_ref().map(ToString::to_string).unwrap_or_default();
                FirstAccess::Invitation(Secret::new(format!("{root}/invite?i={}", secret.expose())))
            }),
        })
    }
}
