//! Framing of HTTP/1.1 responses (RFC 9112 6). If two readers, such as a proxy and the gateway, disagree where a
//! response ends, one answer could pass for the next.

use http::{HeaderMap, Response, StatusCode, Version, header};

use crate::backend::transport::interface::TransportError;

/// Refuses a response that switches protocols, or has another transfer coding than `chunked`.
///
/// # Errors
///
/// Why it is refused. The connection cannot be used again.
pub(super) fn check<B>(response: &Response<B>) -> Result<(), TransportError> {
    if response.version() >= Version::HTTP_2 {
        return Ok(());
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let reason = "the server answered 101 (Switching Protocols), which the gateway did not ask for: is its URL the MCP \
                      endpoint?";
        return Err(TransportError::Refused(reason.to_owned()));
    }
    let mut codings = response.headers().get_all(header::TRANSFER_ENCODING).into_iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(first), _) => {
            let coding = String::from_utf8_lossy(first.as_bytes()).into_owned();
            Err(TransportError::Refused(format!(
                "the server sends its answer with `Transfer-Encoding: {coding}`; only `chunked` is read: turn off other \
                 codings at the server or at the proxy in front of it"
            )))
        }
    }
}

/// True if a response has both a length and a transfer coding: the coding decides, and the connection is not used again
/// (RFC 9112 6.3).
pub(super) fn is_ambiguous(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING) && headers.contains_key(header::CONTENT_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(headers: &[(&str, &[u8])]) -> Response<()> {
        let build = |builder: http::response::Builder, (name, value): &(&str, &[u8])| builder.header(*name, *value);
        headers.iter().fold(Response::builder(), build).body(()).unwrap()
    }

    #[test]
    fn only_chunked_is_a_transfer_coding() {
        for read in [&[][..], &[("transfer-encoding", b" Chunked ".as_slice())]] {
            assert!(check(&response(read)).is_ok(), "{read:?}");
        }
        for coding in ["gzip, chunked", "chunked, chunked", "identity", "", "chunke\u{e4}"] {
            let refused = response(&[("transfer-encoding", coding.as_bytes())]);
            assert!(matches!(check(&refused), Err(TransportError::Refused(_))), "{coding}");
        }
        let twice = [("transfer-encoding", b"chunked".as_slice()), ("transfer-encoding", b"chunked")];
        assert!(check(&response(&twice)).is_err());
    }

    #[test]
    fn a_response_with_two_lengths_is_the_last_on_its_connection() {
        let both = response(&[("transfer-encoding", b"chunked"), ("content-length", b"3")]);
        assert!(is_ambiguous(both.headers()) && check(&both).is_ok());
        assert!(!is_ambiguous(response(&[("content-length", b"3")]).headers()));
    }

    #[test]
    fn a_change_of_the_protocol_is_refused() {
        let mut switched = response(&[("upgrade", b"websocket")]);
        *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        assert!(check(&switched).is_err());
    }
}
