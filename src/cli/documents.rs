//! The documents that commands print with `--json`: one form for lists, one for changes. Knows no command.

use serde::Serialize;
use serde_json::{Value, json};

/// What has become of something: the `state` in the document of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Became {
    /// It is new in the configuration.
    Added,
    /// It is as another thing is.
    Copied,
    /// It is new in the data.
    Created,
    /// It is different from before.
    Changed,
    /// It is no more, with everything held for it.
    Deleted,
    /// It lets nothing in.
    Disabled,
    /// Its tokens are gone.
    Disconnected,
    /// It lets in again.
    Enabled,
    /// It is over.
    Ended,
    /// It is in the configuration no more.
    Removed,
    /// It runs anew.
    Restarted,
    /// It may come again.
    Restored,
    /// It signs nothing, and opens nothing.
    Retired,
    /// It opens nothing.
    Revoked,
    /// Another one is in its place.
    Rotated,
    /// It is as before.
    Unchanged,
    /// It is in a file.
    Written,
}

/// A list under the name of its kind, with room for what concerns all of it.
pub(super) fn list(kind: &str, entries: Vec<Value>) -> Value {
    Value::Object([(kind.to_owned(), entries.into())].into_iter().collect())
}

/// What a command changed, with what has become of it.
pub(super) fn change(became: Became, mut what: Value) -> Value {
    what["state"] = json!(became);
    what
}
