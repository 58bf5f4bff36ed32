//! The `backend` room, from outside.
