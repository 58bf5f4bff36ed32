//! The gateway's data model: plain values with their states and transitions. No input or output.

pub mod access;
pub mod allowed_networks;
mod allowed_origin;
mod api_key;
pub mod backend;
pub mod bearer;
pub mod caller;
pub mod caller_identity;
pub mod client;
mod client_documents;
pub mod client_ip;
pub mod config_key;
pub mod containment;
pub mod correlation_id;
pub mod disclosure;
pub mod egress_proxy;
pub mod endpoint;
pub mod era;
pub mod grant;
pub mod group;
pub mod id;
pub mod identity_assertion;
pub mod identity_token;
mod initial_access_token;
mod invitation;
mod limits;
pub mod login;
mod name_globs;
mod nesting;
pub mod network;
pub mod policy;
mod refusal_reason;
pub mod replica;
pub mod requester;
pub mod rights;
pub mod scope;
pub mod server_access;
pub mod server_auth;
mod server_url;
mod session_address;
pub mod status;
pub mod task_owner;
pub mod tls;
pub mod tool_rules;
pub mod transport;
mod trusted_proxies;
pub mod user;
pub mod user_secret;

pub use access::{AccessPlace, AccessSubject, EndpointVerdict, ServerVerdict, StateVerdict};
pub use allowed_networks::AllowedNetworks;
pub use allowed_origin::AllowedOrigin;
pub use api_key::{
    ApiKey, Direct, KeyAccount, KeyChange, KeyEnd, KeyHistory, KeyKind, KeyRotation, NewAccount, NewKey, Rotated,
    RotatedUser,
};
pub use backend::{BackendSpec, EraChoice, OnLoss, ServerHome, Share};
pub use bearer::{Bearer, RenewalError, TokenRequest, TokenRequests};
pub use caller::{Caller, Owner};
pub use caller_identity::{CallerIdentity, CallerText, TextPart};
pub use client::{Client, ClientAuth, ClientKeys, ConsentRule, GrantType, Registrant};
pub use client_documents::{ClientDocumentPolicy, DocumentTrust};
pub use client_ip::ClientIp;
pub use containment::{Contain, ContainmentStatus, Mechanism, ProgramRules, Protection, ProtectionState};
pub use correlation_id::{CorrelationId, CorrelationIds};
pub use disclosure::{Disclosure, IdentityForm, IdentityHeader};
pub use egress_proxy::{EgressNames, EgressPolicy, EgressProxy};
pub use endpoint::{Binding, Endpoint, Serves, Target};
pub use era::{Era, EraCell, KnownEra};
pub use grant::{Grant, TokenDelivery};
pub use group::{GroupSpec, Groups};
pub use id::{
    BackendId, ClientId, GrantId, InitialAccessTokenId, InvalidBackendId, InvalidUserName, InvitationId, KeyId,
    SessionId, UserId,
};
pub use identity_assertion::{AssertedAccount, AssertedRights, AssertionVerifier, IdentityAssertion};
pub use identity_token::{IdentitySigner, IdentityToken, SignedIdentity};
pub use initial_access_token::InitialAccessToken;
pub use invitation::{Invitation, InvitationLink, InvitationOffer, InvitationRule, InvitationState, Invitee};
pub use limits::LimitsConfig;
pub use login::{IdentityAssertions, LoginProvider, LoginRule, LoginSession, People};
pub use name_globs::NameGlobs;
pub use nesting::{MAX_NESTING, NESTING, nesting};
pub use network::{NetworkSpec, ProxyChoice, TlsIdentity};
pub use policy::{
    AdvertiseIss, AllowedSites, AssertionAudience, AuthPolicy, ConcealBackends, Naming, ParentAudience, QueryKey,
    RateLimitScope, Registration,
};
pub use refusal_reason::{RefusalCode, RefusalReason};
pub use replica::{ClockDifference, OwnedElsewhere, ReplicaAddress, ReplicaNumber, RequestPlace};
pub use requester::{RequestNumber, Requester};
pub use rights::{Access, AllowedBackends, Rights};
pub use scope::{InvalidScope, Scope, Scopes};
pub use server_access::{AccessChange, AccessChanges, AccessEffect, AccessPage, ServerAccess};
pub use server_auth::{
    AuthorizationSettings, ConfiguredClient, DiscoveredNetwork, OAuthClientSpec, PkceSupport, ResourceIndicator,
    ServerAuth,
};
pub(crate) use server_url::ServerUrl;
pub use session_address::SessionAddress;
pub use task_owner::{FoundTask, OwnedTask, TaskHolder, TaskScope};
pub use tls::{ACME_TLS, AcmeChallenge, AuthoritySpec, CertificateFiles, CertificateSource, ExternalAccount, TlsSpec};
pub use tool_rules::{ToolRules, WritingTools};
pub use transport::{
    Delivery, Descriptors, HeaderParams, HttpSpec, SocketAddress, StdioSpec, TransportAbilities, TransportSpec,
};
pub use trusted_proxies::TrustedProxies;
pub use user::{EndedUser, UserOverview};
pub use user_secret::{InvalidSecretName, InvalidUserSecret, MAX_USER_SECRET, SecretName, SecretValues, user_secret};
