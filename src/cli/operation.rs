//! Commands for the operator: the audit trail, the database and its keys, and the examination of a deployment.

pub mod audit;
pub mod backup;
pub mod doctor;
pub mod master_key;
pub mod migrate;
pub mod signing_keys;
