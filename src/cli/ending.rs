//! Commands that end something: they ask on a terminal, and say what has become of it as text or as JSON. Knows no command.

use clap::Args;
use serde_json::Value;

use super::{
    arguments::FormatArgs,
    documents::{self, Became},
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
    /// If the answer is not yes: then the command ends.
    pub(super) fn confirm(self, question: &str, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        if self.yes || !inputs::is_interactive() || inputs::confirmed(&format!("{question} [y/N]"), process)? {
            return Ok(());
        }
        Err(CommandFailure::failed("nothing was changed").why("it was not confirmed"))
    }
}

/// Says what has become of something: a sentence, or with `--json` the members that identify it with its new state.
pub(super) fn tell(form: FormatArgs, identity: Value, became: Became, sentence: &str, process: &mut ProcessContext) {
    if !form.json {
        process.output.remark(sentence);
        return;
    }
    process.output.json(&documents::change(became, identity));
}

/// A key by its id, with its name: `lNct… (laptop)`.
pub(super) fn named(key: &ApiKey) -> String {
    format!("{} ({})", key.id, key.name)
}
