//! Who shares a connection: its key, the pool of the connections of one backend, and the question slots of those whose
//! messages name no call.

mod circuit;
pub(crate) mod connection_key;
pub(crate) mod connection_slot;
pub(crate) mod place_queue;
pub(crate) mod pool;
pub(crate) mod room;
pub(crate) mod slots;
