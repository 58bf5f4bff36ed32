//! Commands on the servers behind the gateway: the file that lists them, their tools, and their messages in other
//! protocol versions.

pub mod add;
pub mod check;
pub mod import;
pub mod list;
mod long_names;
mod probe;
pub(super) mod program_words;
pub mod remove;
mod servers_file;
pub mod tools;
pub mod translate;
mod unset_variables;
