//! The pages and the HTTP layers, from outside.

mod account;
mod authorize;
mod errors;
mod layers;
mod login;
mod site;
