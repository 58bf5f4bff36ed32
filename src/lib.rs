//! Lockkeeper: an OAuth-protected gateway for the Model Context Protocol.
//!
//! Like the keeper of a canal lock it keeps the gate (no entry without a grant) and carries every boat between levels:
//! any MCP client, of any protocol version and transport, reaches any MCP server.
//!
//! # The map
//!
//! | Module | What |
//! |---|---|
//! | [`support`], [`model`] | time, randomness, secrets; who and what, as plain values |
//! | [`mcp`] | the protocol: messages, versions, and the one interface [`mcp::Server`] |
//! | [`wire`] | bytes to messages and back |
//! | [`fetch`] | requests to URLs chosen by strangers |
//! | [`crossing`] | decorators that only a client and a server of different eras need |
//! | [`layers`] | layers around a server: limits, checks, heartbeats, ownership of its tasks |
//! | [`gateway`] | a server made of many servers: policy, routing, merging |
//! | [`backend`] | the servers behind the gateway |
//! | [`frontend`] | the clients in front of it |
//! | [`audit`] | the audit trail: one line in the log and one row for each event |
//! | [`oauth`], [`resource`] | the authorization server, and who is let in |
//! | [`oauth_client`] | logs a person in at a protected server elsewhere |
//! | [`doctor`] | what the well-known clients require of a deployment |
//! | [`openid`] | logs people in at OpenID providers |
//! | [`web`], [`http`] | pages for people, and the guard around every route |
//! | [`listener`] | the listening socket and its connections: limits, timeouts, eviction |
//! | [`replicas`] | several gateways on one database, each with its own memory |
//! | [`vault`] | secrets of users at servers, sealed |
//! | [`storage`] | the database, a file of SQLite or a PostgreSQL server; the only module that knows SQL |
//! | [`fuzzing`] | entry points for the fuzz targets in `fuzz/` |
//! | [`config`], [`cli`], [`telemetry`], [`app`] | how it is set up, started, watched and put together |
//!
//! `docs/architecture.md` has the whole map, the path of a call and of a login, and the place of every kind of change.
//!
//! # Citations
//!
//! | In a comment | Where |
//! |---|---|
//! | design rule 4 | `docs/architecture.md` |
//! | `translation` 2.7; a rule such as AUD | `docs/translation.md` |
//! | a test vector such as `X12` | `tests/vectors/` |
//! | `OA-63`, `N-21` | `docs/authorization.md` |

pub mod app;
pub mod audit;
pub mod backend;
pub mod cli;
pub mod config;
pub mod crossing;
pub mod doctor;
pub mod fetch;
pub mod frontend;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
pub mod http;
pub mod layers;
pub mod listener;
pub mod mcp;
pub mod model;
pub mod oauth;
pub mod oauth_client;
pub mod openid;
pub mod replicas;
pub mod resource;
pub mod storage;
pub mod support;
pub mod telemetry;
pub mod tls;
pub mod upstream;
pub mod vault;
pub mod web;
pub mod wire;
