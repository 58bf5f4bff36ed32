//! Names of headers that a configuration may set.

use http::HeaderName;

/// Headers that the gateway sets itself.
const OWN_HEADERS: [&str; 13] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Parses the name of a header for servers.
///
/// # Errors
///
/// The reason why it cannot be set.
pub(super) fn name(text: &str) -> Result<HeaderName, String> {
    let name = HeaderName::try_from(text).map_err(|_| "this is not a header name".to_owned())?;
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err("the gateway sets this header itself".to_owned());
    }
    Ok(name)
}
