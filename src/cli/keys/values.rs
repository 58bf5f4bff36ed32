//! Values of the arguments about keys. Knows nothing of the commands.

use std::time::Duration;

use crate::{
    config::units,
    model::{Access, BackendId},
    support::printable,
};

/// A name that people see: 1 to 100 characters, all of which can be shown.
pub(super) fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 100 || printable(text) != text {
        return Err("a name has 1 to 100 characters that can be shown".to_owned());
    }
    Ok(text.to_owned())
}

/// A backend, `:read` behind it for its read-only tools alone.
pub(super) fn backend(text: &str) -> Result<(BackendId, Access), String> {
    let (id, access) = match text.strip_suffix(":read") {
        Some(id) => (id, Access::ReadOnly),
        None => (text, Access::Full),
    };
    BackendId::parse(id).map(|id| (id, access)).map_err(|error| error.to_string())
}

/// The time that a key lives.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = units::parse_duration(text)?;
    if lifetime < Duration::from_mins(1) || lifetime > Duration::from_hours(24 * 3650) {
        return Err("a key lives between 1m and 3650d".to_owned());
    }
    Ok(lifetime)
}

/// The time that an old key may be used beside the new one.
pub(super) fn overlap(text: &str) -> Result<Duration, String> {
    let overlap = units::parse_duration(text)?;
    if overlap > Duration::from_hours(24 * 90) {
        return Err("an overlap is 90d at most".to_owned());
    }
    Ok(overlap)
}
