//! Commands about people and clients: what they log in with, and what they may do.

pub mod client;
pub mod clients;
pub mod grants;
pub mod invitations;
pub mod invite;
pub mod keys;
mod known_backends;
pub(super) mod lookup;
mod rights_args;
pub mod sessions;
pub mod upstream;
pub mod users;
