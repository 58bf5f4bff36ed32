//! The master key, and secrets in the store that are encrypted with it.
//!
//! The master key is never in the database. It is in a file next to it, or configured, so a mere copy of the database
//! reveals no secret.

mod current;
mod key_file;
mod rotation;

pub use self::{
    current::{master_key, pepper, stored_secret},
    rotation::{finish_rotation, rotate},
};
