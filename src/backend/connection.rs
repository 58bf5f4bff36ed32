//! One connection to one server of either era, over any transport.
//!
//! A legacy server shares a session with its client; [`handshake`] opens it. A modern server serves self-contained
//! requests; [`discover`] asks it for its server information. The rest is common: [`calls`] holds the open calls,
//! [`call`] makes one, [`receive`] handles incoming messages, [`session_protocol`] and [`request_protocol`] attribute
//! them to a client, and [`server_requests`] keeps the server's requests until they are answered. [`session_interests`]
//! and [`listen`] ask a server of either era for the notifications that its clients want.

mod announcements;
pub(crate) mod background;
pub(crate) mod call;
mod call_events;
pub(crate) mod calls;
mod client_tasks;
pub(crate) mod closed_requests;
mod connection_server;
pub(crate) mod discover;
mod fan_in;
pub(crate) mod handshake;
pub(crate) mod known_interests;
mod listen;
pub(crate) mod oddities;
mod ownership;
pub(crate) mod receive;
pub(crate) mod request_protocol;
pub(crate) mod server_info;
mod server_requests;
mod session_interests;
pub(crate) mod session_protocol;
mod silence;
pub(crate) mod state;
mod wedged;

pub(crate) use call::OutboundCall;
pub(crate) use connection_server::call_through;
pub(crate) use server_info::ServerSummary;
pub(crate) use state::ServerConnection;
