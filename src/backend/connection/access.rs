//! Access to what a legacy server has: methods of its version alone, and of tasks those of the client session.

use super::{
    ownership::{Thing, own_tasks},
    state::ServerConnection,
};
use crate::{
    backend::key::Scope,
    mcp::{Context, Era, ErrorObject, Event, Feature, Method, Outcome, Payload, Untranslatable, translate::Cause},
    model::Requester,
};

/// Whether `method` is to be sent for this client. What the negotiated version has not is not sent (`translation` 6.5); a
/// name that no version knows is the peers' own matter. A task of another client session is as if it did not exist
/// (2025-11-25, tasks, *Security*).
pub(crate) fn check(
    connection: &ServerConnection,
    method: &Method,
    params: &Payload,
    context: &Context,
) -> Result<(), ErrorObject> {
    if connection.about.era == Era::Modern {
        return Ok(());
    }
    let has_tasks = || {
        let declared = connection.server().is_some_and(|server| server.declares("tasks"));
        declared && connection.revision().has(Feature::CoreTasks)
    };
    if *method == Method::TasksUpdate || method.is_of_core_tasks() && !has_tasks() {
        let (feature, from, to) = (method.as_str().to_owned().into(), params.revision, connection.revision());
        let denied = Untranslatable { feature, from, to, backend: None, cause: Cause::Request };
        let denied = denied.of(Some(&connection.about.backend));
        if !to.has(Feature::CoreTasks) {
            denied.report();
        }
        return Err(denied.error());
    }
    let named = if method.is_of_core_tasks() { params.string("taskId") } else { None };
    match named {
        Some(id) if !owns_task(connection, &context.requester, &id) && !may_own(connection, context, &id) => {
            Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
        }
        _ => Ok(()),
    }
}

/// The part of an event that is for this client session: of a list of tasks, its own.
pub(crate) fn own_part(connection: &ServerConnection, method: &Method, event: Event, holder: &Requester) -> Event {
    match event {
        Event::Done(Outcome::Complete(result))
            if *method == Method::TasksList && connection.about.era == Era::Legacy =>
        {
            Event::Done(Outcome::Complete(own_tasks(&result, |id| owns_task(connection, holder, id))))
        }
        event => event,
    }
}

/// Whether a task was made here. If no one shares the server, it need not be known.
pub(crate) fn made_task(connection: &ServerConnection, id: &str) -> bool {
    connection.calls.ownership.lock().owner(&Thing::Task(id.to_owned())).is_some()
}

/// Whether a task that nobody is known to own can be of a client without sessions: whatever is in the session of one user
/// is that user's.
fn may_own(connection: &ServerConnection, context: &Context, id: &str) -> bool {
    context.requester.session().is_none()
        && matches!(connection.about.key.scope, Scope::User(_))
        && !made_task(connection, id)
}

/// Whether a task is this client session's; what nobody is known to own belongs to the only one behind this session.
fn owns_task(connection: &ServerConnection, holder: &Requester, id: &str) -> bool {
    if connection.about.key.is_of_one_client() {
        return true;
    }
    let ownership = connection.calls.ownership.lock();
    ownership.owner(&Thing::Task(id.to_owned())).is_some_and(|owner| owner.holder == *holder)
}
