//! The master key, and secrets encrypted under it in the store. Knows nothing of what the secrets are for.
//!
//! The master key is never in the database: it is a file beside it, or configured, so a copy of the database alone
//! reveals no secret.

mod current;
mod key_file;
mod rotation;

pub use self::{
    current::{master_key, pepper, stored_secret},
    rotation::{finish_rotation, rotate},
};
