//! The gateway as a client of a protected server, through the whole application: a server with an authorization server of
//! its own, users with browsers, and clients of several versions.

mod calls;
mod ends;
mod issuers;
mod logins;
mod resources;
mod secrets;
mod services;
mod world;
