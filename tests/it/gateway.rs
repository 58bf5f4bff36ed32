//! The `gateway` room, from outside.
