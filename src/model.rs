//! The gateway's data model: plain values with their states and transitions. No input or output.

pub mod backend;
pub mod caller;
pub mod client;
pub mod client_ip;
pub mod endpoint;
pub mod era;
pub mod grant;
pub mod id;
pub mod key;
pub mod policy;
pub mod request;
pub mod requester;
pub mod rights;
pub mod scope;
pub mod status;
pub mod transport;

pub use backend::{BackendSpec, EraChoice, OnLoss, Share};
pub use caller::{Caller, Owner};
pub use client::{Client, ClientAuth, GrantType};
pub use client_ip::ClientIp;
pub use endpoint::{Binding, Endpoint, Serves, Target};
pub use era::{Era, EraCell, KnownEra};
pub use grant::Grant;
pub use id::{BackendId, ClientId, GrantId, InvalidBackendId, InvalidUserName, KeyId, SessionId, UserId};
pub use key::{ApiKey, Direct, KeyRotation, NewKey, Rotated, RotatedUser};
pub use policy::{AdvertiseIss, AuthPolicy, ConcealBackends, Naming, QueryKey, Registration};
pub use request::{CorrelationId, CorrelationIds};
pub use requester::{RequestNumber, Requester};
pub use rights::{Access, AllowedBackends, Rights};
pub use scope::{InvalidScope, Scope, Scopes};
pub use transport::{Delivery, Descriptors, HeaderParams, HttpSpec, StdioSpec, TransportAbilities, TransportSpec};
