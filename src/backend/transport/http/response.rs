//! Responses of a server, and reading of their bodies.

use bytes::Bytes;
use http::{HeaderValue, header};

use super::client::IncomingBody;
use crate::{
    backend::transport::interface::TransportError,
    fetch::{cause::cause, coding::ReadableBody},
    support::{
        Account,
        memory::{Claim, Exhausted},
    },
    wire::body::{self, BodyError},
};

/// A response with an unread body.
pub(crate) type Response = http::Response<ReadableBody<IncomingBody>>;

/// Reads a body of at most `most` bytes, charged to `account`.
pub(crate) async fn read(
    response: Response,
    most: usize,
    account: &Account,
) -> Result<(Bytes, Option<Claim>), TransportError> {
    let claim = || Claim::nothing(account.clone());
    body::read(response.into_body(), most, claim).await.map_err(|error| match error {
        BodyError::Exhausted => TransportError::Lost(Exhausted.to_string()),
        BodyError::TooLarge => TransportError::Refused(format!("the answer is larger than {most} bytes")),
        BodyError::Broken(error) => TransportError::Lost(cause(&error)),
    })
}

/// Reads a body of at most `most` bytes, without charging it: only for small limits.
pub(crate) async fn read_small(response: Response, most: usize) -> Option<Bytes> {
    body::read_small(response.into_body(), most).await.ok()
}

/// True if the body is an event stream.
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
