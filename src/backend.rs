//! Servers behind the gateway: each a `Server` made of a transport and an adapter. Knows nothing of clients' transports.
//!
//! A [`Supervisor`] holds them all. Each is supervised by itself: a base session, which the gateway holds for lists and
//! status, is started at once and started again when it is lost; sessions for clients are opened when they are needed
//! and ended when they are idle. No backend waits for another.

mod client_connections;
mod connection;
mod context;
mod demo;
mod detect;
mod era;
mod error;
mod health;
mod key;
mod listens;
mod open;
mod pool;
mod remote;
mod server;
mod settings;
mod slots;
mod subscriptions;
mod supervise;
mod supervisor;
mod task_group;
mod transport;

pub use demo::Demo;
pub use error::StartError;
pub use slots::SlotLimits;
pub use supervisor::{Deps, Supervisor};
pub use transport::http::ClientError;
