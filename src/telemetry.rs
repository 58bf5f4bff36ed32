//! Logs and metrics: how they are set up. Knows nothing of what is logged.
