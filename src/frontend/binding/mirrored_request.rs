//! Checks the headers that repeat a 2026-07-28 request, so that proxies can route it without reading the body
//! (transports, *Request Metadata*). Reads them in one pass. A request whose headers differ from its body is refused,
//! because a proxy may have acted on the headers.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};

use crate::{
    frontend::stateless_request::RequestEnvelope,
    mcp::{ErrorObject, IndexedJson, Method, json, mirrored_params::Mirror},
    wire::headers::{self, text_of},
};

/// The request as its headers describe it.
#[derive(Debug, Default)]
pub(super) struct MirroredRequest<'a> {
    version: Occurrence<'a>,
    method: Occurrence<'a>,
    name: Occurrence<'a>,
    params: Mirror,
}

/// A header that must appear once.
#[derive(Debug, Default)]
enum Occurrence<'a> {
    #[default]
    Absent,
    Once(&'a HeaderValue),
    Repeated,
}

// === impl MirroredRequest ===

impl<'a> MirroredRequest<'a> {
    /// Reads the headers of a request.
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut mirrored = Self::default();
        for (name, value) in headers {
            let name = name.as_str();
            match name.strip_prefix("mcp-") {
                Some("protocol-version") => mirrored.version.note(value),
                Some("method") => mirrored.method.note(value),
                Some("name") => mirrored.name.note(value),
                Some(_) if let Some(param) = name.strip_prefix(headers::PARAM) => mirrored.note_param(param, value),
                Some(_) | None => {}
            }
        }
        mirrored
    }

    /// Records the value of a parameter; `None` if it is repeated or has invalid characters.
    fn note_param(&mut self, name: &str, value: &HeaderValue) {
        let is_visible = |value: &&str| value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        let value = text_of(value).filter(is_visible).and_then(headers::unmirrored).map(Cow::into_owned);
        let is_first = !self.params.contains_key(name);
        self.params.insert(name.to_owned(), value.filter(|_| is_first));
    }

    /// Compares version, method and name with the body, and returns the parameters.
    ///
    /// # Errors
    ///
    /// `-32020` if one of these headers is missing, repeated or different.
    pub(super) fn checked(
        self,
        envelope: &RequestEnvelope,
        method: &Method,
        params: &IndexedJson,
    ) -> Result<Mirror, ErrorObject> {
        if self.version.text("MCP-Protocol-Version")? != envelope.version {
            return Err(mismatch("the MCP-Protocol-Version header and the body name different versions"));
        }
        if self.method.text("Mcp-Method")? != method.as_str() {
            return Err(mismatch("the Mcp-Method header and the body name different methods"));
        }
        // parameters without a name are invalid; the server reports that
        let Some(name) = method.mirrored_member().and_then(|key| json::unquoted(params.member(key)?)) else {
            return Ok(self.params);
        };
        match headers::unmirrored(self.name.text("Mcp-Name")?) {
            Some(stated) if stated == name => Ok(self.params),
            Some(_) => Err(mismatch("the Mcp-Name header and the body name different things")),
            None => Err(mismatch("the Mcp-Name header is no base64 between its marks")),
        }
    }
}

// === impl Occurrence ===

impl<'a> Occurrence<'a> {
    fn note(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// The text of the header of this `name`.
    ///
    /// # Errors
    ///
    /// `-32020` if it is missing, repeated or not text.
    fn text(&self, name: &str) -> Result<&'a str, ErrorObject> {
        let text = if let Self::Once(value) = self { text_of(value) } else { None };
        text.ok_or_else(|| mismatch(&format!("the {name} header is missing, or is there more than once")))
    }
}

/// The error for headers that differ from the body.
fn mismatch(reason: &str) -> ErrorObject {
    ErrorObject::new(ErrorObject::HEADER_MISMATCH, &format!("Header mismatch: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_found_by_the_names_that_clients_send() {
        let value = HeaderValue::from_static;
        let headers = HeaderMap::from_iter([
            (headers::PROTOCOL_VERSION, value("2026-07-28")),
            (headers::METHOD, value("tools/call")),
            (headers::NAME, value("=?base64?w6k=?=")),
            (http::header::ACCEPT, value("*/*")),
        ]);
        let mirrored = MirroredRequest::of(&headers);
        for (header, text) in
            [(&mirrored.version, "2026-07-28"), (&mirrored.method, "tools/call"), (&mirrored.name, "=?base64?w6k=?=")]
        {
            assert_eq!(header.text("x").unwrap(), text);
        }
        assert!(MirroredRequest::default().method.text("Mcp-Method").is_err());
    }

    #[test]
    fn a_header_that_is_repeated_says_nothing() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("mcp-method", "ping"),
            ("mcp-method", "ping"),
            ("mcp-param-a", "1"),
            ("mcp-param-a", "1"),
            ("mcp-param-a", "1"),
            ("mcp-param-b", " \u{e9}"),
            ("mcp-param-c", "=?base64?w6k=?="),
        ] {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let mirrored = MirroredRequest::of(&headers);
        assert!(mirrored.method.text("Mcp-Method").is_err());
        let expected = [("a", None), ("b", None), ("c", Some("\u{e9}"))];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(mirrored.params, Mirror::from(expected));
    }
}
