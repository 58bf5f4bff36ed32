//! The headers of 2026-07-28 that mirror the body, so that what stands between can route without reading it
//! (transports, *Request Metadata*). A request whose headers say something else is refused: whoever stood between was told
//! a lie.

use bytes::Bytes;
use http::HeaderMap;

use crate::{
    mcp::{ErrorObject, Method, json::Object, mirrored::Mirror},
    wire::headers,
};

/// Holds `Mcp-Method` and `Mcp-Name` against the body.
///
/// # Errors
///
/// `-32020` where one is missing, repeated or different.
pub(super) fn check(headers: &HeaderMap, method: &Method, params: &Bytes) -> Result<(), ErrorObject> {
    let stated = headers::sole(headers, &headers::METHOD);
    let stated = stated.ok_or_else(|| mismatch("the Mcp-Method header is missing, or is there more than once"))?;
    if stated != method.as_str() {
        return Err(mismatch("the Mcp-Method header and the body name different methods"));
    }
    let Some(key) = headers::named_by(method) else { return Ok(()) };
    // without a name in the body the parameters are wrong, which is for the server to say
    let Some(name) = Object::parse(params).and_then(|params| params.string(key)) else { return Ok(()) };
    let stated = headers::sole(headers, &headers::NAME);
    let stated = stated.ok_or_else(|| mismatch("the Mcp-Name header is missing, or is there more than once"))?;
    match headers::unmirrored(stated) {
        Some(stated) if stated == name => Ok(()),
        Some(_) => Err(mismatch("the Mcp-Name header and the body name different things")),
        None => Err(mismatch("the Mcp-Name header is no base64 between its marks")),
    }
}

/// What the `Mcp-Param-` headers say; nothing of one that is repeated, or holds what no header may.
pub(super) fn params(headers: &HeaderMap) -> Mirror {
    let names = headers.keys().filter_map(|name| Some((name, name.as_str().strip_prefix(headers::PARAM)?)));
    let visible = |value: &&str| value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    names
        .map(|(name, param)| {
            (param.to_owned(), headers::sole(headers, name).filter(visible).and_then(headers::unmirrored))
        })
        .collect()
}

/// The error for headers that do not mirror the body.
pub(super) fn mismatch(reason: &str) -> ErrorObject {
    ErrorObject::new(ErrorObject::HEADER_MISMATCH, &format!("Header mismatch: {reason}"))
}
