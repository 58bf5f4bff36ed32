//! MCP servers behind the gateway: each is a `Server`, made of a transport and the protocol of its era. Knows nothing
//! of clients' transports.
//!
//! The [`Supervisor`] holds all backends. It starts the base connection of each at once and restarts it when it is
//! lost; the gateway uses base connections for lists and status. Connections for clients are opened on demand and
//! closed when idle. No backend waits for another.
//!
//! | Module | What |
//! |---|---|
//! | `supervision` | all backends, each backend, its base connection, its health |
//! | `server` | a backend as a server: connection of a call, attempts, waits, listens; a server for each user |
//! | `start` | how a connection is opened: transport, process, era, handshake |
//! | `sharing` | who shares a connection: keys, the pool, slots for server requests |
//! | `interests` | log levels and subscriptions of clients, and who receives which notification |
//! | `connection` | one connection to one server |
//! | `transport` | how messages move |

mod connection;
mod context;
mod demo;
mod error;
mod interests;
mod server;
mod sharing;
mod start;
mod supervision;
mod task_group;
pub(crate) mod transport;

pub use demo::Demo;
pub use error::StartError;
pub use server::user_servers::CONNECT_TOOL;
pub use supervision::supervisor::{
    BackendChanges, BackendDeps, BackendVitals, RestartRefusal, RetiredBackends, SupervisedServer, Supervisor,
};
pub use transport::http::ClientError;
