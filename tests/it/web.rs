//! The `web` room, from outside.
