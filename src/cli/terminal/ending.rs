//! Shared by commands that end something: the question on the terminal, and the report as text or JSON.

use clap::Args;
use serde_json::Value;

use super::{
    documents::{self, Became, FormatArgs},
    failure::CommandFailure,
    inputs,
    process::ProcessContext,
};
use crate::model::ApiKey;

/// Options of a command that ends something.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct EndingArgs {
    /// Does not ask; without a terminal, nothing is asked anyway
    #[arg(long, short)]
    yes: bool,
    /// Output format.
    #[command(flatten)]
    pub form: FormatArgs,
}

impl EndingArgs {
    /// Asks a person on a terminal.
    ///
    /// # Errors
    ///
    /// A failure if the answer is not yes.
    pub(in crate::cli) fn confirm(self, question: &str, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        if self.yes || !inputs::is_interactive() || inputs::confirmed(&format!("{question} [y/N]"), process)? {
            return Ok(());
        }
        Err(CommandFailure::failed("nothing was changed").why("it was not confirmed"))
    }
}

/// Reports a change: a sentence, or with `--json` the members that identify the thing, and its new state.
pub(in crate::cli) fn tell(
    form: FormatArgs,
    identity: Value,
    became: Became,
    sentence: &str,
    process: &mut ProcessContext,
) {
    if !form.json {
        process.output.remark(sentence);
        return;
    }
    process.output.json(&documents::change(became, identity));
}

/// The id of a key with its name: `lNct… (laptop)`.
pub(in crate::cli) fn named(key: &ApiKey) -> String {
    format!("{} ({})", key.id, key.name)
}
