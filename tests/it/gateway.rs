//! The `gateway` room, from outside.

mod calls;
mod extension;
mod listens;
mod lists;
mod only_tasks;
mod script;
mod versions;
