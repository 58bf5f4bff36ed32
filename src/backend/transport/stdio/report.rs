//! Reports on the containment of programs: for the status, the log and a metric.

use std::collections::BTreeMap;

use super::{containment::Containment, environment, spawner::Spawner};
use crate::model::{BackendId, BackendSpec, ContainmentStatus, TransportSpec};

/// Containment of a server's programs, decided anew as for a start; `None` if the server is not a program, or none
/// of any server was started yet.
pub(crate) fn contained(
    spec: &BackendSpec,
    environment: &BTreeMap<String, String>,
    spawner: &Spawner,
) -> Option<ContainmentStatus> {
    let TransportSpec::Stdio(program) = &spec.transport else { return None };
    let environment = environment::of_child(environment, &program.env);
    let decided = Containment::decide(spec, program, &environment, spawner.known_means()?);
    decided.ok().map(|contained| contained.status)
}

/// Sets the metrics for the protections of a program that starts; returns their names for the log.
pub(super) fn logged(server: &BackendId, status: &ContainmentStatus) -> String {
    for state in &status.protections {
        let (server, protection) = (server.to_string(), state.protection.label());
        let holds = if state.by.is_some() { 1.0 } else { 0.0 };
        metrics::gauge!("lockkeeper_server_protection", "server" => server, "protection" => protection).set(holds);
    }
    let words = status.protections.iter().map(|state| format!("{}: {state}", state.protection.name()));
    format!("{}; {}", status.level, words.collect::<Vec<_>>().join(", "))
}
