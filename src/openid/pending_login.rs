//! A login in progress at a provider, sealed into the cookie of its browser.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::support::{Digest, Random, Timestamp};

/// Time for a login at a provider (`UP-12`).
pub(super) const LIFETIME: Duration = Duration::from_mins(10);

/// The login to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderPrompt {
    /// A session at the provider is enough.
    IfNeeded,
    /// The person logs in there again (`OA-77`).
    Fresh,
    /// The person chooses an account there (`UP-20`).
    Choose,
    FreshChoice,
    /// The person logs in there, since the provider has no choice of accounts.
    Login,
}

/// State of a login for the browser's return.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingLogin {
    pub(super) provider: String,
    /// Random; in the URL of both redirects.
    pub(super) state: String,
    /// Random; in the id token.
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) prompt: ProviderPrompt,
    pub(super) begun: Timestamp,
    /// Next step after the login, in the format of the pages.
    pub(super) after: String,
}

/// The parameters of the provider's redirect back. The error is the provider's text: it is never shown.
#[derive(Debug, Default)]
pub struct LoginAnswer<'a> {
    /// `state`.
    pub state: &'a str,
    /// `iss` (RFC 9207).
    pub issuer: Option<&'a str>,
    /// `code`.
    pub code: Option<&'a str>,
    /// `error`.
    pub error: Option<&'a str>,
}

// === impl ProviderPrompt ===

impl ProviderPrompt {
    /// The prompt for a fresh login, or for a choice of accounts.
    pub const fn new(is_fresh: bool, chooses: bool) -> Self {
        match (is_fresh, chooses) {
            (false, false) => Self::IfNeeded,
            (true, false) => Self::Fresh,
            (false, true) => Self::Choose,
            (true, true) => Self::FreshChoice,
        }
    }

    /// Its words of `prompt`.
    pub(super) const fn words(self) -> &'static [&'static str] {
        match self {
            Self::IfNeeded => &[],
            Self::Fresh | Self::Login => &["login"],
            Self::Choose => &["select_account"],
            Self::FreshChoice => &["login", "select_account"],
        }
    }

    /// True if the login must be newer than its request.
    pub(super) const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh | Self::FreshChoice)
    }

    /// The prompt for a provider that refuses a choice of accounts; `None` if it was not asked for that.
    pub(super) const fn without_choice(self) -> Option<Self> {
        match self {
            Self::Choose => Some(Self::Login),
            Self::FreshChoice => Some(Self::Fresh),
            Self::IfNeeded | Self::Fresh | Self::Login => None,
        }
    }
}

// === impl PendingLogin ===

impl PendingLogin {
    pub(super) fn mint(
        provider: &str,
        prompt: ProviderPrompt,
        after: &str,
        random: &dyn Random,
        now: Timestamp,
    ) -> Self {
        Self {
            provider: provider.to_owned(),
            state: random.token(),
            nonce: random.token(),
            verifier: random.token(),
            prompt,
            begun: now,
            after: after.to_owned(),
        }
    }

    /// True if this answer belongs to this login.
    pub(super) fn fits(&self, provider: &str, answer: &LoginAnswer<'_>, now: Timestamp) -> bool {
        let is_same = Digest::sha256(&self.state) == Digest::sha256(answer.state);
        is_same && self.provider == provider && self.begun <= now && now < self.begun + LIFETIME
    }
}
