//! The `frontend` room, from outside.
