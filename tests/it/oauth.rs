//! The authorization server, tested through its router and its service for the pages.

mod accounts;
mod audit;
mod authorize;
mod caller_tokens;
mod client_assertions;
mod client_documents;
mod client_expiry;
mod devices;
mod discovery;
mod gate;
mod groups;
mod housekeeping;
mod initial_access_tokens;
mod introspection;
mod keys;
mod library;
mod master_key;
mod pushed_requests;
mod refresh;
mod refusals;
mod registration;
mod requirements;
mod service_accounts;
mod signing_keys;
mod token;
mod users;
