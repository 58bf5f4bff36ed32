//! Servers behind the gateway: each a `Server` made of a transport and an adapter. Knows nothing of clients' transports.
//!
//! A [`Supervisor`] holds them all. Each is supervised by itself: a base session, which the gateway holds for lists and
//! status, is started at once and started again when it is lost; sessions for clients are opened when they are needed
//! and ended when they are idle. No backend waits for another.

mod client_connections;
mod client_settings;
mod connection;
mod connection_key;
mod context;
mod demo;
mod detect;
mod era;
mod error;
mod external_backend;
mod health;
mod listens;
mod open;
mod pool;
mod server;
mod slots;
mod subscriptions;
mod supervise;
mod supervisor;
mod task_group;
mod transport;

pub use demo::Demo;
pub use error::StartError;
pub use slots::SlotLimits;
pub use supervisor::{BackendDeps, Supervisor};
pub use transport::http::ClientError;
