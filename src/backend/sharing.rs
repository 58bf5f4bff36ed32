//! Sharing of connections: keys, the pool of connections of one backend, and slots for server requests that name no
//! call.

mod circuit;
pub(crate) mod connection_key;
pub(crate) mod connection_slot;
pub(crate) mod place_queue;
pub(crate) mod pool;
pub(crate) mod room;
pub(crate) mod slots;
