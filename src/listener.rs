//! The listening socket and its connections: how many there may be, how long each step may take, and which are closed
//! first. Knows nothing of MCP, OAuth and routes.
//!
//! Connections speak HTTP/1.1 alone: HTTP/2 over plain text is off, and a proxy in front speaks it to clients. hyper
//! parses and writes; its timer covers the first head and the wait for the next one alike, so that this module has its
//! own: one timer for each connection, which is set anew only where a deadline comes earlier.
//!
//! | Step | Bound |
//! |---|---|
//! | the head of a request | [`Timeouts::head`], then 408 |
//! | its body, while the handler waits for it | [`Timeouts::body`] without a byte, then 1 KiB/s; 408 |
//! | what a handler leaves of the body | 256 KiB and 5 s, else the connection ends with the response |
//! | the response | none in time; a client that takes nothing for 90 s is gone |
//! | the wait for the next request | [`Timeouts::idle`] |
//!
//! Each connection is handed to the worker thread that has the fewest, and stays there once it has begun. There is one listening socket and
//! no `SO_REUSEPORT`: with that, a second gateway on the same port would start without a word, and a worker that is busy
//! would keep its share of the new connections.
//!
//! When all places are taken, connections without a complete request make room first, then idle ones, then heads and
//! bodies that began less than a second ago, then those whose client takes none of the response that waits for it. Any
//! other connection with a request, which may be a stream of hours, never does.

mod accept;
mod addresses;
mod admission;
mod body;
mod connection;
pub mod descriptors;
mod drive;
mod exchange;
mod handover;
mod io;
mod refuse;
mod service;
mod settings;
mod socket;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod workers;

pub use self::{
    accept::Lifecycle,
    addresses::{AddressPermit, Addresses},
    settings::{ListenerSettings, Serve, Timeouts},
    socket::Accept,
    workers::{WorkerThreads, Workers},
};

/// Answers by `service` on what `listener` accepts until `lifecycle.drain` is cancelled and all connections have ended.
pub async fn serve<A: Accept>(listener: A, service: impl Serve, settings: ListenerSettings, lifecycle: Lifecycle) {
    accept::run(listener, service, settings, lifecycle).await;
}
