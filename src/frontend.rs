//! Clients in front of the gateway: each binding turns its requests into calls. Knows nothing of tokens and of backends.
