//! Responses of a server, and their bodies. Knows nothing of the requests.

use bytes::Bytes;
use http::{HeaderValue, header};

use super::client::{IncomingBody, cause};
use crate::{
    backend::transport::interface::TransportError,
    wire::body::{self, BodyError},
};

/// A response with an unread body.
pub(crate) type Response = http::Response<IncomingBody>;

/// Reads a body of at most `most` bytes.
pub(crate) async fn read(response: Response, most: usize) -> Result<Bytes, TransportError> {
    body::read(response.into_body(), most).await.map_err(|error| match error {
        BodyError::TooLarge => TransportError::Refused(format!("the answer is larger than {most} bytes")),
        BodyError::Broken(error) => TransportError::Lost(cause(&error)),
    })
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
