//! The service that answers requests, and one request through it.

use std::{convert::Infallible, future::poll_fn, net::SocketAddr, pin::pin, sync::Arc, task::Poll};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header};
use hyper::body::Incoming;
use tower::Service;

use super::{
    body::{BodyInvitation, RequestBody, ResponseBody},
    connection::Connection,
    table::Evicted,
};
use crate::support::own_waker::{OwnWaker, Woken};
use futures_util::FutureExt as _;

/// The answer to a body that comes too slowly (RFC 9110 15.5.9), in the form of other refusals.
const TIMEOUT: &str = r#"{"error":"request_timeout","error_description":"The body of the request came too slowly for this gateway. Send it again over a faster connection."}"#;

/// A service that answers every request, such as a router.
pub trait Serve:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Serve for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

pub(super) async fn answer(
    mut service: impl Serve,
    request: http::Request<Incoming>,
    peer: SocketAddr,
    connection: Arc<Connection>,
    waker: Arc<OwnWaker>,
) -> Result<http::Response<ResponseBody>, Evicted> {
    connection.begin(request.body())?;
    let mut response = {
        let handler = pin!(service.call(extended(request, peer, &connection)));
        let mut handler = Woken::new(handler, &waker);
        poll_fn(|cx| match handler.poll_unpin(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(response),
            Poll::Pending if connection.is_overdue() => Poll::Ready(timed_out()),
            Poll::Pending => Poll::Pending,
        })
        .await
    };
    connection.answers(&mut response)?;
    Ok(response.map(|body| ResponseBody::new(body, connection)))
}

/// The request in the form that the layers expect.
fn extended(request: http::Request<Incoming>, peer: SocketAddr, connection: &Arc<Connection>) -> Request {
    let invitation = invitation(request.headers());
    let mut request = request.map(|body| Body::new(RequestBody::new(body, invitation, Arc::clone(connection))));
    request.extensions_mut().insert(connection.place(peer));
    request
}

fn invitation(headers: &HeaderMap) -> BodyInvitation {
    let expects =
        headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    if expects { BodyInvitation::Awaited } else { BodyInvitation::Given }
}

fn timed_out() -> Response {
    metrics::counter!("lockkeeper_connections_ended_total", "reason" => "body_timeout").increment(1);
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::REQUEST_TIMEOUT, headers, TIMEOUT).into_response()
}
