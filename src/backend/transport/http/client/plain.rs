//! Plain connections: HTTP/1.1, each driven by the request that uses it, so that no task has to be woken.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri, uri::Authority};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use super::keep_alive::max_idle;
use crate::{
    fetch::connector::{ConnectRoute, ServerStream},
    support::{FastMap, own_waker::OwnWaker, piece::CONNECTION_BUFFER},
};

/// Interval at which closed and expired idle connections are dropped.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Idle connections of one thread.
#[derive(Default)]
pub(super) struct IdleConnections(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// By server; the most recently used one is last.
    by_server: FastMap<String, Vec<IdleConnection>>,
    sweeper: Option<AbortOnDropHandle<()>>,
}

struct IdleConnection {
    connection: Box<PlainConnection>,
    /// No request is sent on it after this time.
    until: Instant,
}

/// One connection to a server, or to a proxy that forwards requests to the server.
pub(super) struct PlainConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<http1::Connection<ServerStream, Full<Bytes>>>,
    waker: Arc<OwnWaker>,
    server: Authority,
    route: ConnectRoute,
    /// Maximum idle time, by the headers of the last response.
    max_idle: Duration,
    home: Weak<IdleConnections>,
}

/// Outcome of sending a request.
pub(super) enum Sent {
    /// The response, with the connection that its body arrives on.
    Answered(Response<Incoming>, Box<PlainConnection>),
    /// The connection had ended before the request was sent.
    Unsent(Request<Full<Bytes>>, hyper::Error),
    /// The connection ended after the request was sent.
    Lost(hyper::Error),
}

// === impl IdleConnections ===

impl IdleConnections {
    /// Takes an idle connection to `server`, the most recently used one first.
    pub(super) fn take(&self, server: &Authority) -> Option<Box<PlainConnection>> {
        let mut idle = self.0.lock();
        let kept = idle.by_server.get_mut(server.as_str())?;
        let now = Instant::now();
        while let Some(last) = kept.pop() {
            if now < last.until {
                return Some(last.connection);
            }
        }
        None
    }

    /// Keeps a connection for another request, for at most its idle time.
    fn keep(self: &Arc<Self>, connection: Box<PlainConnection>) {
        // without a runtime, no request can be sent either
        let Ok(runtime) = Handle::try_current() else { return };
        let mut idle = self.0.lock();
        if idle.sweeper.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            idle.sweeper = Some(AbortOnDropHandle::new(runtime.spawn(sweep(Arc::downgrade(self)))));
        }
        let until = Instant::now() + connection.max_idle;
        let kept = IdleConnection { connection, until };
        match idle.by_server.get_mut(kept.connection.server.as_str()) {
            Some(others) => others.push(kept),
            None => drop(idle.by_server.insert(kept.connection.server.to_string(), vec![kept])),
        }
    }
}

/// Drops connections that have ended or were not used in time. Ends when none are left.
async fn sweep(connections: Weak<IdleConnections>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(connections) = connections.upgrade() else { return };
        let mut idle = connections.0.lock();
        let now = Instant::now();
        idle.by_server.retain(|_, kept| {
            kept.retain_mut(|idle| now < idle.until && idle.connection.is_open());
            !kept.is_empty()
        });
        if idle.by_server.is_empty() {
            idle.sweeper = None;
            return;
        }
    }
}

// === impl PlainConnection ===

impl PlainConnection {
    /// Makes an HTTP connection of a new stream to `server`. It returns to `home` between requests.
    pub(super) async fn new(
        stream: ServerStream,
        server: Authority,
        home: &Arc<IdleConnections>,
    ) -> Result<Box<Self>, hyper::Error> {
        let route = stream.route();
        let (sender, driver) = http1::Builder::new().max_buf_size(CONNECTION_BUFFER).handshake(stream).await?;
        let (driver, home) = (Some(driver), Arc::downgrade(home));
        Ok(Box::new(Self { sender, driver, waker: Arc::default(), server, route, max_idle: Duration::ZERO, home }))
    }

    /// Sends a request. Its headers must name the host.
    pub(super) async fn send(mut self: Box<Self>, mut request: Request<Full<Bytes>>) -> Sent {
        if self.route == ConnectRoute::Server {
            // RFC 9112 3.2.1: a server gets only the path; a proxy gets the whole URI
            *request.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
        }
        let mut response = pin!(self.sender.try_send_request(request));
        match poll_fn(|cx| self.poll_with(cx, |cx| response.as_mut().poll(cx))).await {
            Ok(response) => {
                self.max_idle = max_idle(response.headers());
                Sent::Answered(response, self)
            }
            Err(mut error) => match error.take_message() {
                Some(request) => Sent::Unsent(request, error.into_error()),
                None => Sent::Lost(error.into_error()),
            },
        }
    }

    /// Polls `poll`, which waits for the connection, and then the connection.
    pub(super) fn poll_with<T>(
        &mut self,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Self { driver, waker, .. } = self;
        waker.poll_together(cx, |cx| {
            if let Poll::Ready(done) = poll(cx) {
                return Poll::Ready(done);
            }
            drive(driver, cx);
            Poll::Pending
        })
    }

    /// Keeps the connection for another request, unless it has ended, the response is incomplete, or the server allows
    /// no more requests on it.
    pub(super) fn release(mut self: Box<Self>) {
        if (self.sender.is_ready() || self.is_open() && self.sender.is_ready())
            && !self.max_idle.is_zero()
            && let Some(home) = self.home.upgrade()
        {
            home.keep(self);
        }
    }

    /// True unless the connection has ended. Does not register a waker.
    fn is_open(&mut self) -> bool {
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some()
    }
}

/// Polls a connection. Drops it when it ends; its requests get the error.
fn drive(driver: &mut Option<http1::Connection<ServerStream, Full<Bytes>>>, cx: &mut Context<'_>) {
    if let Some(open) = driver
        && Pin::new(open).poll(cx).is_ready()
    {
        *driver = None;
    }
}
