//! A command's process, the options of every command, and everything that commands print and ask. Knows no command.

pub mod documents;
pub mod ending;
pub mod failure;
pub mod global_args;
pub(super) mod inputs;
pub mod output;
pub mod page_viewer;
pub(super) mod pasted_address;
pub mod process;
pub mod table;
