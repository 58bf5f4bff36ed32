//! A layer, and how layers are wrapped around a server.

use std::sync::Arc;

use super::server_facts::ServerFacts;
use crate::{mcp::Server, model::BackendId};

/// One layer of a stack, which can wrap any number of servers.
pub type Layer = Arc<dyn Fn(Beneath<'_>) -> Arc<dyn Server> + Send + Sync>;

/// A server to wrap in a layer.
pub struct Beneath<'a> {
    /// The configured server at the bottom.
    pub backend: &'a BackendId,
    /// The server directly beneath the layer.
    pub server: Arc<dyn Server>,
    /// Facts from the lists of the server at the bottom.
    pub facts: &'a Arc<ServerFacts>,
}

/// Wraps a server in `layers`, the first one outermost.
pub fn stacked(layers: &[Layer], beneath: Beneath<'_>) -> Arc<dyn Server> {
    let Beneath { backend, server, facts } = beneath;
    layers.iter().rev().fold(server, |server, layer| layer(Beneath { backend, server, facts }))
}
