//! The `gateway` module, tested through its public interface.

mod access;
mod calls;
mod empty_lists;
mod extensions;
mod groups;
mod listens;
mod lists;
mod mirrors;
mod modern;
mod remembered_lists;
pub(crate) mod script;
mod task_listens;
mod task_owners;
mod tasks_extension;
mod tool_rules;
mod versions;
