//! The demonstration backend.
