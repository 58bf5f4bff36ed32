//! The master key, and secrets encrypted under it in the store.
//!
//! The master key is never in the database: it is in a file next to it, or configured, so a copy of the database by
//! itself reveals no secret.

mod current;
mod key_file;
mod rotation;

pub use self::{
    current::{master_key, pepper, stored_secret},
    rotation::{finish_rotation, rotate},
};
