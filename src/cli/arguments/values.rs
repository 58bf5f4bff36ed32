//! Parsers of argument values that several commands share.

use std::{net::IpAddr, str::FromStr, time::Duration};

use ipnet::IpNet;

use crate::{
    config::units,
    model::{Access, BackendId},
    support::printable,
};

/// A printable name: 1 to 100 characters.
pub(in crate::cli) fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 100 || printable(text) != text {
        return Err("a name has 1 to 100 printable characters".to_owned());
    }
    Ok(text.to_owned())
}

/// The name of a server or a group, with `:read` for its read-only tools only.
pub(in crate::cli) fn server(text: &str) -> Result<(BackendId, Access), String> {
    let (id, access) = match text.strip_suffix(":read") {
        Some(id) => (id, Access::ReadOnly),
        None => (text, Access::Full),
    };
    BackendId::parse(id).map(|id| (id, access)).map_err(|error| error.to_string())
}

pub(in crate::cli) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "this must be a whole number".to_owned())
}

/// A header as `NAME: VALUE` or `NAME=VALUE`.
pub(in crate::cli) fn header(text: &str) -> Result<(String, String), String> {
    // the name of a header contains neither
    let (name, value) = text.split_once([':', '=']).ok_or("this must be `NAME: VALUE`")?;
    Ok((name.trim().to_owned(), value.trim_start().to_owned()))
}

/// A network in CIDR notation, or a single address.
pub(in crate::cli) fn network(text: &str) -> Result<IpNet, String> {
    let address = |_| text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse::<IpNet>().or_else(address);
    network.map_err(|_| "this is neither a network such as `192.0.2.0/24` nor an address".to_owned())
}

/// Lifetime of a key or token.
pub(in crate::cli) fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = units::parse_duration(text)?;
    if lifetime < Duration::from_mins(1) || lifetime > Duration::from_hours(24 * 3650) {
        return Err("a lifetime is 1m to 3650d".to_owned());
    }
    Ok(lifetime)
}

/// Time for which the link of an invitation can be used.
pub(in crate::cli) fn validity(text: &str) -> Result<Duration, String> {
    let validity = units::parse_duration(text)?;
    if validity < Duration::from_mins(1) || validity > Duration::from_hours(24 * 30) {
        return Err("a link can be used for 1m to 30d".to_owned());
    }
    Ok(validity)
}

/// Lifetime of a key, or `never`.
pub(in crate::cli) fn end(text: &str) -> Result<Lifetime, String> {
    if text == "never" { Ok(Lifetime::Unlimited) } else { lifetime(text).map(Lifetime::For) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Lifetime {
    Unlimited,
    /// This long, from now on.
    For(Duration),
}

/// Time for which an old key stays valid.
pub(in crate::cli) fn overlap(text: &str) -> Result<Duration, String> {
    let overlap = units::parse_duration(text)?;
    if overlap > Duration::from_hours(24 * 90) {
        return Err("an overlap is 90d at most".to_owned());
    }
    Ok(overlap)
}
