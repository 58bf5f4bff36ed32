//! One request and its response on a connection of its own.

use std::{error::Error, future};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1,
    rt::{Read, Write},
};
use url::Position;

use super::{
    cause::cause,
    coding::{ACCEPTED, ReadableBody, readable},
    error::FetchError,
    request::FetchRequest,
};

/// Maximum size of the head of a response, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// The part of a response to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyBound {
    /// All of it, if it has at most this size in bytes.
    Whole(usize),
    /// The first bytes, up to this size; nothing of a stream of events.
    Beginning(usize),
}

/// Form of a request's target (RFC 9112 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestForm {
    Path,
    /// The whole URL, for a proxy that forwards the request, with the credentials for it.
    Whole(Option<HeaderValue>),
}

/// Sends a request on a fresh connection, which ends with the response.
pub(super) async fn exchange(
    stream: impl Read + Write + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
    bound: BodyBound,
) -> Result<Response<Bytes>, FetchError> {
    let handshake = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(stream).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let (head, body) = readable(response).map_err(|error| FetchError::Broken(error.to_string()))?.into_parts();
        let body = read(&head.headers, body, bound).await?;
        Ok(Response::from_parts(head, body))
    };
    // the connection may end before its received bytes are read
    let connection = async {
        let _ = connection.await;
        future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => answer,
        () = connection => Err(FetchError::Broken("the connection ended".to_owned())),
    }
}

async fn read(headers: &HeaderMap, mut body: ReadableBody<Incoming>, bound: BodyBound) -> Result<Bytes, FetchError> {
    match bound {
        BodyBound::Whole(max) => match Limited::new(body, max).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge(max)),
            Err(error) => Err(broken(&*error)),
        },
        BodyBound::Beginning(max) => {
            let mut read = Vec::new();
            while read.len() < max && !is_stream(headers) && !body.is_end_stream() {
                let Some(frame) = body.frame().await else { break };
                if let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Ok(read.into())
        }
    }
}

/// True for a response that is a stream of events.
pub fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("text/event-stream")
}

/// The request in the form of HTTP/1.1, with the host as in the URL.
pub(super) fn head(request: FetchRequest, form: &RequestForm) -> Result<Request<Full<Bytes>>, FetchError> {
    let FetchRequest { method, url, headers, body } = request;
    let unusable = |_| FetchError::Broken("the URL cannot be written in HTTP".to_owned());
    let target = match form {
        RequestForm::Path => &url[Position::BeforePath..Position::AfterQuery],
        RequestForm::Whole(_) => &url[..Position::AfterQuery],
    };
    let mut head = Request::builder().method(method).uri(target);
    if let Some(own) = head.headers_mut() {
        *own = headers;
        let host = &url[Position::BeforeHost..Position::BeforePath];
        let host = HeaderValue::from_str(host).map_err(|error| unusable(error.into()))?;
        own.entry(header::HOST).or_insert(host);
        let agent = HeaderValue::from_static(concat!("lockkeeper/", env!("CARGO_PKG_VERSION")));
        own.entry(header::USER_AGENT).or_insert(agent);
        own.entry(header::ACCEPT_ENCODING).or_insert(ACCEPTED);
        if let RequestForm::Whole(Some(credentials)) = form {
            own.insert(header::PROXY_AUTHORIZATION, credentials.clone());
        }
    }
    head.body(Full::new(body)).map_err(unusable)
}

pub(super) fn broken(error: &(dyn Error + 'static)) -> FetchError {
    FetchError::Broken(cause(error))
}
