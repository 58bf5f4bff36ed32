//! Examines whether a deployment meets the requirements of the well-known MCP clients on their way to a token. It does
//! not depend on this gateway: it examines any MCP server over HTTP, as far as possible without a person.
//!
//! A client is a value of [`CLIENTS`]; [`Doctor::examine`] takes the same steps for each: the 401, the metadata, the
//! registration, the authorization request up to the login page, and the errors of the token endpoint.

mod authorization;
mod certificate;
mod client;
mod clients;
mod cross_origin;
mod discovery;
mod examination;
mod exchange;
mod finding;
mod front;
mod login;
mod reach;
mod registration;
mod requirement;

pub use self::{
    client::ClientProfile,
    clients::CLIENTS,
    examination::{ClientVerdict, Doctor, Examination},
    finding::{Finding, Severity},
    login::{OpenLogin, TokenEndpointRequest},
    registration::{ClientAuthMethod, RegistrationPolicy},
};
