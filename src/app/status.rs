//! Status of the gateway, collected from its parts at each request.

use std::sync::Arc;

use super::{Foundation, call_path::CallPath, reload::Reloader, tls::TlsPart};
use crate::{
    model::{
        BackendId, GroupSpec,
        status::{GroupStatus, ListedClients, Status},
    },
    oauth::BackendNames,
    support::Clock,
    web::{StatusSource, ToolCounter},
};

impl Foundation<'_> {
    /// Returns the numbers of tools of servers.
    pub(super) fn tools(path: &CallPath) -> ToolCounter {
        let gateway = Arc::clone(&path.gateway);
        Arc::new(move |target, server, user| gateway.tool_counts(target, server, user))
    }

    /// Returns a function that collects the status.
    pub(super) fn status(&self, path: &CallPath, reloader: &Arc<Reloader>, clock: &Arc<dyn Clock>) -> StatusSource {
        let (reloader, existing) = (Arc::clone(reloader), self.oauth.settings().backends.clone());
        let CallPath { supervisor, gateway, frontend, stacks: _, crossing: _ } = path;
        let (supervisor, gateway, frontend) = (Arc::clone(supervisor), Arc::clone(gateway), frontend.clone());
        let (clock, begun) = (Arc::clone(clock), clock.now());
        let (started, url) = (begun.to_string(), format!("{}/mcp", self.public_url));
        let process = self.process.clone();
        let budget = self.live.budget.clone();
        let certificate = self.tls.map(TlsPart::status);
        Arc::new(move |clients| {
            let mut backends = supervisor.status();
            for backend in &mut backends {
                if let Ok(id) = BackendId::parse(&backend.id) {
                    backend.offers(gateway.counts(&id), gateway.no_tools(&id));
                    backend.left_out = gateway.left_out(&id);
                    backend.warnings.extend(gateway.warnings(&id));
                }
            }
            Status {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started: started.clone(),
                url: url.clone(),
                summary: String::new(),
                configuration: reloader.differences(),
                backends,
                groups: existing.groups().iter().map(|group| group_status(group, &url, &existing)).collect(),
                sessions: match clients {
                    ListedClients::All => frontend.status(),
                    ListedClients::Of(user) => frontend.status_of(user),
                    ListedClients::Nobodys => Vec::new(),
                },
                certificate: certificate.as_ref().map(|certificate| certificate()),
                process: Some(process.status(clock.now().since(begun))),
                network: process.unreachable(),
                memory: Some(budget.in_use().into()),
            }
            .in_order()
        })
    }
}

/// Status of a group, with its existing backends; `url` is the merged endpoint's.
fn group_status(group: &GroupSpec, url: &str, existing: &BackendNames) -> GroupStatus {
    let servers = group.servers.iter().filter(|id| existing.contains(id)).map(ToString::to_string).collect();
    GroupStatus { id: group.id.to_string(), url: format!("{url}/{}", group.id), servers }
}
