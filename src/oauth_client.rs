//! OAuth client for protected MCP servers (2025-11-25 and 2026-07-28, *Authorization*): finds the authorization server,
//! registers, sends a person there in the browser, and gets, refreshes and revokes tokens.
//!
//! Used by `upstream`, for the users of a gateway, and by `lockkeeper connect`, for one person. There,
//! [`TokenProvider`] answers the requests of a [`crate::model::Bearer`]. A login belongs to a server's URL. All of a
//! person's processes share it in one file, and change it one at a time, under a lock.

mod authorization;
mod authorization_request;
mod callback;
mod challenge;
mod discovery;
mod endpoint;
mod error;
mod http;
mod kept_secret;
mod login_file;
mod parameters;
mod provider;
mod refresh_attempts;
mod refusal;
mod registration;
mod saved_tokens;
mod server_identity;
mod token_endpoint;
mod token_response;
mod tokens;

pub use self::{
    authorization::{Attempt, LoginTarget, OpenBrowser},
    authorization_request::{AuthorizationParameters, CodeOutcome, ExpectedResponse, LoginWish, OpenAuthorization},
    callback::LoopbackUri,
    challenge::BearerChallenge,
    discovery::{AuthorizationServer, Discovered, MetadataFault, discover, lists_issuer},
    endpoint::{appended, at_root, is_loopback, well_known},
    error::LoginError,
    http::{LoginTransport, OAuthHttp},
    kept_secret::KeptSecret,
    login_file::{LoginFile, LoginName},
    parameters::{OfflineAccess, ServiceNeeds, covers, service_needs, union, with_operators},
    provider::TokenProvider,
    refresh_attempts::{RefreshAttempts, RefreshOutcome, RefreshReason},
    refusal::{OAuthRefusal, RefusalMeaning},
    registration::{ApplicationType, ClientIdentity, ClientRegistration, RegisteredAuth, RegisteredClient, identify},
    saved_tokens::{IssuedTokens, RefreshEnd, SavedTokens, TokenGrant},
    server_identity::{ResourceServer, fits, is_same, is_server},
    token_response::TokenFailure,
    tokens::{AuthenticatedClient, TokenSource, client_secret_basic},
};
