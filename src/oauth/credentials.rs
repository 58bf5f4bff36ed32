//! Tokens, keys and grants: their form, verification, times of use, introspection and revocation.

pub mod access_token;
pub(super) mod caller_token;
pub mod grants;
pub(super) mod introspection_endpoint;
pub mod revocation;
pub(super) mod revocation_endpoint;
pub(super) mod revocation_watch;
pub(super) mod usage;
pub mod verify;
