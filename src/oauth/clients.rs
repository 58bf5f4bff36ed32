//! Clients: their registration and administration, the documents and keys that they publish, and their authentication.

pub(crate) mod client_assertion;
pub(super) mod client_auth;
pub(crate) mod client_documents;
mod client_key_sets;
pub(super) mod client_keys;
pub(super) mod client_lookup;
pub(super) mod initial_access_tokens;
pub mod redirect_uri;
pub(super) mod registered_clients;
pub(super) mod registration;
