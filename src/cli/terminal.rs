//! The base of every command: its process, the options that all have, output, failures, and questions on the terminal.
//! Knows no command.

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
