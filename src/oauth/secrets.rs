//! Secrets of the authorization server: the master key and those stored under it, and the text form of the secrets that
//! it gives out.

pub mod master_key;
pub mod opaque;
pub(super) mod pepper;
pub mod signing;
