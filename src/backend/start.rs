//! How a connection is opened: its transport and process, the server's era, the handshake. Also what starts before a
//! client asks for it.

pub(crate) mod connection_start;
pub(crate) mod detection;
pub(crate) mod era;
pub(crate) mod introductions;
pub(crate) mod opener;
mod server_transport;
pub(crate) mod spares;
pub(crate) mod start_turns;
mod transport_choice;
pub(crate) mod upgrade;
