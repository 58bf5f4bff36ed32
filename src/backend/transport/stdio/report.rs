//! What is said of the containment of programs: in the status, in the log, as a metric. Decides nothing.

use std::collections::BTreeMap;

use super::{containment::Containment, environment, spawner::Spawner};
use crate::model::{BackendId, BackendSpec, ContainmentStatus, TransportSpec};

/// The containment of a server's programs; `None` for a server that is no program, and before the first program was started.
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

/// Counts the protections of a program that starts, and names them for the log.
pub(super) fn logged(server: &BackendId, status: &ContainmentStatus) -> String {
    for state in &status.protections {
        let (server, protection) = (server.to_string(), state.protection.label());
        let holds = if state.by.is_some() { 1.0 } else { 0.0 };
        metrics::gauge!("lockkeeper_server_protection", "server" => server, "protection" => protection).set(holds);
    }
    let words = status.protections.iter().map(|state| format!("{}: {state}", state.protection.name()));
    format!("{}; {}", status.level, words.collect::<Vec<_>>().join(", "))
}
