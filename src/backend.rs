//! Servers behind the gateway: each a `Server` made of a transport and an adapter. Knows nothing of clients' transports.
