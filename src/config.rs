//! The configuration: read once, checked whole, every error reported with its place. Knows nothing of running parts.
