//! One connection to one server, whatever its era: how it is opened, what runs on it, what comes of it. Knows nothing of
//! which transport carries it.
//!
//! A legacy server and its client share a session, which [`handshake`] opens. A modern one serves requests that stand alone;
//! [`discover`] asks it for its account of itself. The rest is the same: [`calls`] knows the open calls, [`call`] makes one,
//! [`receive`] takes in what comes, [`session_protocol`] and [`request_protocol`] find out whom it is for, [`server_requests`] has the requests of the server wait for answers, and
//! [`listen`] shares one subscription stream between all who listen.

pub(crate) mod background;
pub(crate) mod call;
mod call_events;
pub(crate) mod calls;
pub(crate) mod closed_requests;
mod connection_server;
pub(crate) mod discover;
mod fan_in;
pub(crate) mod handshake;
mod listen;
mod listen_state;
mod ownership;
pub(crate) mod receive;
pub(crate) mod request_protocol;
pub(crate) mod server_info;
mod server_requests;
pub(crate) mod session_protocol;
pub(crate) mod state;

pub(crate) use call::OutboundCall;
pub(crate) use connection_server::call_through;
pub(crate) use server_info::{ServerInfo, ServerSummary};
pub(crate) use state::ServerConnection;
