//! Users, and what lets them in: API keys, accounts of OpenID providers, invitations.

pub mod api_keys;
pub(super) mod invitations;
mod key_changes;
pub(super) mod provider_accounts;
pub(super) mod users;
