//! Responses of a server, and their bodies. Knows nothing of the requests.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::{HeaderValue, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::client::cause;
use crate::backend::transport::interface::TransportError;

/// A response with an unread body.
pub(crate) type Response = http::Response<Incoming>;

/// Reads a body of at most `most` bytes.
pub(crate) async fn read(response: Response, most: usize) -> Result<Bytes, TransportError> {
    let mut body = response.into_body().into_data_stream();
    let mut text = Bytes::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| TransportError::Lost(cause(&error)))?;
        if text.len() + chunk.len() > most {
            return Err(TransportError::Refused(format!("the answer is larger than {most} bytes")));
        }
        text = if text.is_empty() { chunk } else { joined(text, &chunk) };
    }
    Ok(text)
}

/// Appends to a text without copying it, unless others hold it too.
fn joined(text: Bytes, chunk: &[u8]) -> Bytes {
    let mut text = text.try_into_mut().unwrap_or_else(|text| BytesMut::from(&text[..]));
    text.extend_from_slice(chunk);
    text.freeze()
}

/// True if the body is a stream of events.
pub(crate) fn is_events(response: &Response) -> bool {
    has_type(response, "text/event-stream")
}

/// True if the body is JSON.
pub(super) fn is_json(response: &Response) -> bool {
    has_type(response, "application/json")
}

fn has_type(response: &Response, name: &str) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
}
