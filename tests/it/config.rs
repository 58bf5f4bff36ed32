//! The `config` room, from outside.
