//! Commands about people and their clients: keys, invitations and logins, and the rights that these give.

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
