//! The documents that commands print with `--json`: one form for lists, one for changes.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

/// Output format.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct FormatArgs {
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// The outcome of a command: the `state` in the document of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum Became {
    /// New in the configuration file.
    Added,
    /// Copied to another database.
    Copied,
    /// New in the database.
    Created,
    Changed,
    /// Gone, with everything that was kept for it.
    Deleted,
    /// It can no longer log in or call.
    Disabled,
    /// Its tokens are deleted.
    Disconnected,
    /// It can log in and call again.
    Enabled,
    Ended,
    /// No longer in the file.
    Removed,
    Restarted,
    /// It may register and log in again.
    Restored,
    /// It no longer signs, and its tokens are refused.
    Retired,
    /// It no longer gives access.
    Revoked,
    /// Replaced by a new one.
    Rotated,
    /// It was already as requested.
    Unchanged,
    /// Saved in a file.
    Written,
}

/// A list under the name of its kind. It is an object, so that members about the whole list can be added.
pub(in crate::cli) fn list(kind: &str, entries: Vec<Value>) -> Value {
    Value::Object([(kind.to_owned(), entries.into())].into_iter().collect())
}

/// The document of a change: `what` identifies the thing, `became` is its new state.
pub(in crate::cli) fn change(became: Became, mut what: Value) -> Value {
    what["state"] = json!(became);
    what
}
