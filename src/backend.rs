//! MCP servers behind the gateway: each is a `Server`, made of a transport and the protocol of its era. Knows nothing
//! of clients' transports.
//!
//! The [`Supervisor`] holds all backends. It starts the base connection of each at once and restarts it when it is
//! lost; the gateway uses base connections for lists and status. Connections for clients are opened on demand and
//! closed when idle. No backend waits for another.

mod caller_transport;
mod circuit;
mod client_connections;
mod connection;
mod connection_key;
mod context;
mod demo;
mod detection;
mod era;
mod error;
mod external_backend;
mod health;
mod interests;
mod introductions;
mod listens;
mod member;
mod opener;
mod output_tail;
mod pool;
mod server;
mod server_transport;
mod slots;
mod spares;
mod start_turns;
mod supervision;
mod supervisor;
mod task_group;
pub(crate) mod transport;
mod transport_choice;
mod upgrade;
mod user_servers;

pub use demo::Demo;
pub use error::StartError;
pub use supervisor::{BackendChanges, BackendDeps, RetiredBackends, SupervisedServer, Supervisor};
pub use transport::http::ClientError;
pub use user_servers::CONNECT_TOOL;
