//! The stack of servers that a call passes, as a list. Only this file decides which layers there are, and in what
//! order.
//!
//! | From the client to the server | Where it is put on |
//! |---|---|
//! | suspended calls and deferred requests, for clients without a session | each endpoint, by `Stacks::around_endpoint` |
//! | what notes the only client of a gateway on standard input | each endpoint, by `Stacks::around_endpoint` |
//! | routing: names, lists, the choice of a server | `gateway` |
//! | the layers | each server, by [`Stacks::around_server`] |
//! | the view of its tools, which the catalog reads too | each server, by [`Stacks::around_server`] |
//! | the server; between it and its connections what the pair of client and server needs | `backend`, `crossing/pairs` |
//!
//! Guard and gate judge HTTP requests, in front of all this.

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    backend::{self, SupervisedServer},
    crossing::Crossing,
    frontend::{BehindEndpoint, EndpointServers},
    gateway::ConfiguredBackend,
    layers::{self, Layer, TaskOwnerDeps, TaskOwners},
    mcp::{Payload, Server, SoleClient},
    model::{BackendSpec, Target, TaskScope},
};

/// Builds stacks. Holds state that is shared by the layers of all servers.
pub struct Stacks {
    task_owners: TaskOwners,
    /// The only client of a gateway over stdio; `None` if there may be several.
    sole_client: Option<SoleClient>,
}

// === impl Stacks ===

impl Stacks {
    /// Creates a builder. The background tasks of its layers belong to the tracker and end with the token.
    pub fn new(task_owners: TaskOwnerDeps, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        Self { task_owners: TaskOwners::new(task_owners, tracker, cancel), sole_client: None }
    }

    /// Sets the only client of a gateway over stdio.
    #[must_use]
    pub(super) fn of(self, sole_client: Option<SoleClient>) -> Self {
        Self { sole_client, ..self }
    }

    /// Layers around the server of this backend, outermost first. Layers that are turned off are left out.
    fn layers(&self, spec: &BackendSpec, server: &Arc<dyn Server>) -> Vec<Layer> {
        let layers = [
            // around the bridges for tasks, so that it sees every pair of client and server
            Some(layers::owned_tasks(&self.task_owners, TaskScope::of(spec), Arc::clone(server))),
            // rules about calls belong here: after routing, with the server's own names, and before every bound
            Some(layers::output_checks()),
            layers::result_size(spec.result_size),
            layers::call_bound(spec.calls),
            Some(layers::heartbeat(spec.heartbeat)),
        ];
        layers.into_iter().flatten().collect()
    }

    /// A backend in the form that the gateway takes: its server behind the operator's view of its tools, and the layers
    /// for clients' calls.
    pub fn around_server(
        &self,
        spec: &BackendSpec,
        supervised: SupervisedServer,
        last_server_info: Option<Payload>,
    ) -> ConfiguredBackend {
        let SupervisedServer { generation, server, announcer, .. } = supervised;
        ConfiguredBackend {
            generation,
            announcer,
            layers: self.layers(spec, &server),
            server: layers::tool_view(server, spec.tools.as_ref()),
            connect_tool: spec.is_per_user().then_some(backend::CONNECT_TOOL),
            spec: Arc::new(spec.clone()),
            last_server_info,
        }
    }

    /// The servers of an endpoint, for clients with and without a session. The decorators for suspended calls are
    /// outside of the gateway: a request state is bound to the parameters that the client sent, so it must be opened
    /// before the gateway edits them.
    pub(super) fn around_endpoint(
        &self,
        target: Target,
        gateway: Arc<dyn Server>,
        behind: BehindEndpoint,
        crossing: &Crossing,
    ) -> EndpointServers {
        let sessions = match &self.sole_client {
            Some(client) => client.noted_at(gateway),
            None => gateway,
        };
        EndpointServers { requests: crossing.around_endpoint(target, Arc::clone(&sessions)), sessions, behind }
    }
}
