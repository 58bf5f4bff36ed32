//! The listening socket and its connections: how many there may be, how long each step may take, and which are closed
//! first.
//!
//! Connections speak only HTTP/1.1: HTTP/2 over plain text is off, and a proxy in front speaks it to clients. hyper
//! parses and writes. Its timer does not distinguish the first head from the wait for the next one, so this module has
//! its own: one timer per connection, which is reset only for an earlier deadline.
//!
//! | Step | Bound |
//! |---|---|
//! | the head of a request | [`Timeouts::head`], then 408 |
//! | its body, while the handler waits for it | [`Timeouts::body`] without a byte, then 1 KiB/s; 408 |
//! | the part of the body that a handler did not read | 256 KiB and 5 s, else the connection ends with the response |
//! | the response | no time limit; a client that takes nothing for 90 s is dropped |
//! | the wait for the next request | [`Timeouts::idle`] |
//!
//! Each connection goes to the worker thread with the fewest, and stays there once it has begun. There is one listening
//! socket without `SO_REUSEPORT`: with it, a second gateway on the same port would start without an error, and a busy
//! worker would keep its share of new connections.
//!
//! At the limit, connections are closed in this order: those without a complete request, then idle ones, then heads and
//! bodies that began less than a second ago, then clients that do not read a waiting response. Within each group,
//! connections without an authenticated user go first, then those of the user with the most. An eighth is reserved for
//! users who have none. Any other connection with a request, which may be a stream of hours, is never closed.

mod accept;
mod addresses;
mod admission;
mod body;
mod client_listener;
mod connection;
pub mod descriptors;
mod drive;
mod exchange;
mod foreign_protocol;
mod handover;
mod io;
mod listener_settings;
mod refuse;
mod service;
mod socket;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod users;
mod workers;

pub use self::{
    accept::Lifecycle,
    addresses::{AddressPermit, Addresses},
    client_listener::{ClientListener, ClientStream},
    listener_settings::{ListenerSettings, Timeouts},
    service::Serve,
    socket::Accept,
    table::ConnectionPlace,
    workers::{WorkerThreads, Workers},
};

/// Uses `service` to answer requests from `listener` until `lifecycle.drain` is cancelled and all connections have
/// ended.
pub async fn serve<A: Accept>(listener: A, service: impl Serve, settings: ListenerSettings, lifecycle: Lifecycle) {
    accept::run(listener, service, settings, lifecycle).await;
}
