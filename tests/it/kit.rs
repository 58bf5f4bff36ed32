//! The test kit: scripted MCP servers of every version on every transport, a server over HTTP that may break every rule, a
//! scripted authorization server, a gateway, people in browsers, and clients of every version over every binding. A server
//! runs in the process of the test, and what it does is data; a program on stdio is this program once more, which carries
//! bytes between its pipes and the server.

pub(crate) mod answering;
pub(crate) mod authority;
pub(crate) mod carriers;
pub(crate) mod client;
pub(crate) mod gateway;
pub(crate) mod outlet;
pub(crate) mod peer;
pub(crate) mod person;
pub(crate) mod player;
pub(crate) mod prescribed;
pub(crate) mod programs;
pub(crate) mod protected;
pub(crate) mod provider;
pub(crate) mod record;
mod relay;
pub(crate) mod scripted;
pub(crate) mod services;
pub(crate) mod tap;
