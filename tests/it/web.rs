//! Pages and HTTP layers, tested through their routes.

mod account;
mod authorize;
mod errors;
mod layers;
mod login;
mod site;
