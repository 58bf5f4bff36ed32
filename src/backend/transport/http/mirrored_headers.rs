//! Headers of 2026-07-28 that mirror the body of a request, so that intermediaries can route without reading it
//! (transports, *Request Metadata*).

use http::{HeaderMap, HeaderName};

use crate::{
    mcp::{Message, json, mirrored_params::Mirror},
    wire::headers,
};

/// Inserts the headers for `message`, and headers for the parameters in `mirror`.
pub(super) fn insert(mirrored: &mut HeaderMap, message: &Message, mirror: Option<&Mirror>) {
    let Message::Request { method, params, .. } = message else { return };
    mirrored.insert(headers::METHOD, headers::mirrored(method.as_str()));
    let name = method.mirrored_member().and_then(|key| json::unquoted(params.peek(key)?));
    if let Some(name) = name {
        mirrored.insert(headers::NAME, headers::mirrored(&name));
    }
    for (name, value) in mirror.into_iter().flatten() {
        let header = HeaderName::from_bytes(format!("{}{name}", headers::PARAM).as_bytes());
        if let (Ok(header), Some(value)) = (header, value) {
            mirrored.insert(header, headers::mirrored(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::{Method, RequestId};

    #[test]
    fn the_body_is_mirrored() {
        let params = Bytes::from_static("{\"name\":\"\u{e9}\"}".as_bytes()).into();
        let call = Message::Request { id: RequestId::number(1), method: Method::ToolsCall, params };
        let mirror = Mirror::from([("region".to_owned(), Some("us".to_owned())), ("no name".to_owned(), None)]);
        let mut headers = HeaderMap::new();
        insert(&mut headers, &call, Some(&mirror));
        let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(value("mcp-method"), Some("tools/call"));
        assert_eq!(value("mcp-name"), Some("=?base64?w6k=?="));
        assert_eq!(value("mcp-param-region"), Some("us"));
        assert_eq!(headers.len(), 3);
    }
}
