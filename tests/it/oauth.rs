//! The `oauth` room, from outside.
