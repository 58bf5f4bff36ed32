//! Layers around a server, each a `Server` around a `Server`: bounds, checks, progress, owners of tasks, rules for
//! tools. `app/stack` lists them in order. A layer only depends on the server beneath it; routes, and the lists and
//! names of the merged endpoint, are elsewhere.

mod call_bound;
mod checked_outputs;
mod heartbeat;
mod layer;
mod output_checks;
mod output_schema;
mod owned_tasks;
pub(crate) mod result_size;
mod server_facts;
mod task_owners;
mod tool_view;

pub use self::{
    call_bound::call_bound,
    checked_outputs::output_checks,
    heartbeat::heartbeat,
    layer::{Beneath, Layer, stacked},
    owned_tasks::owned_tasks,
    result_size::result_size,
    server_facts::ServerFacts,
    task_owners::{StoreUnavailable, TaskOwnerDeps, TaskOwnerStore, TaskOwners},
    tool_view::tool_view,
};
