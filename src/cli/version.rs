//! `lockkeeper version`: the version, and the supported protocol versions.

use serde_json::json;

use super::terminal::{documents::FormatArgs, process::ProcessContext};
use crate::mcp::Revision;

/// `version`.
#[derive(Debug, clap::Args)]
pub struct VersionArgs {
    #[command(flatten)]
    form: FormatArgs,
}

impl VersionArgs {
    /// Prints the version.
    pub fn run(self, process: &mut ProcessContext) {
        let version = env!("CARGO_PKG_VERSION");
        let carried = Revision::ALL.map(Revision::as_str);
        if self.form.json {
            process.output.json(&json!({ "version": version, "protocol_versions": carried }));
        } else {
            process.output.print(&format!("lockkeeper {version}\nprotocol versions: {}", carried.join(", ")));
        }
    }
}
