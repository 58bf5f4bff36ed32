//! `lockkeeper version`: what this is, and which protocol versions it carries.

use serde_json::json;

use super::{arguments::Form, process::Process};
use crate::mcp::{Era, Revision};

/// `version`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    form: Form,
}

impl Args {
    /// Prints it.
    pub fn run(self, process: &mut Process) {
        let version = env!("CARGO_PKG_VERSION");
        let carried: Vec<&str> =
            Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy).map(Revision::as_str).collect();
        if self.form.json {
            process.output.json(&json!({ "version": version, "protocol_versions": carried }));
        } else {
            process.output.print(&format!("lockkeeper {version}\nprotocol versions: {}", carried.join(", ")));
        }
    }
}
