//! Pages and HTTP layers, tested through their routes.

mod access;
mod account;
mod addresses;
mod authorize;
mod client_documents;
mod consent;
mod device;
mod errors;
mod fresh_login;
mod invitations;
mod layers;
mod leavers;
mod login;
mod provider_login;
mod provider_logout;
mod site;
mod tabs;
mod twice;
