//! Commands for the operator of a gateway: its data and keys, the audit trail, and the login as clients see it.

pub mod audit;
pub mod backup;
pub mod doctor;
pub mod master_key;
pub mod migrate;
pub mod signing_keys;
