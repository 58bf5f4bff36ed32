//! State and deadlines of one connection, shared by its socket, request, response and driver. It does not contain
//! hyper's connection, which [`super::drive`] polls.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Timeouts,
    exchange::{HttpExchange, Intake, Remainder, ResponseProgress},
    state::ConnectionState,
    table::{ConnectionPlace, Evicted, SlotStatus},
};
use crate::support::{pace::Pace, silence::was_frozen};

/// Maximum bytes of a body read and discarded after an early answer, so that the connection can be reused.
const MAX_DISCARDED: u64 = 256 * 1024;

/// Maximum wait for the rest of a body after an early response.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time that a client may leave all pending bytes unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(super) struct Connection {
    entry: SlotStatus,
    timeouts: Timeouts,
    born: Instant,
    /// Set if the driver has to check.
    changed: AtomicBool,
    /// True if bytes came since the last request began.
    received: AtomicBool,
    /// True if hyper has no bytes left to write.
    flushed: AtomicBool,
    /// Time since when the socket has taken no bytes, in milliseconds since `born`, plus one; 0 while it takes some.
    blocked: AtomicU64,
    exchange: Mutex<HttpExchange>,
}

/// Next step of the driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DriverStep {
    /// Wait for I/O, at most until the deadline.
    Wait(Option<Instant>),
    /// Poll hyper again, because a decision was made that it must see.
    Again,
    /// Begin the shutdown of an idle connection.
    Retire,
    End(ConnectionEnd),
}

/// Reason to end a connection before the client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The head of a request took too long.
    Head,
    /// No request came for too long.
    Idle,
    /// The body came too slowly after part of the response had been sent.
    Body,
    /// The client does not read.
    Write,
    /// Closed to make room for another connection.
    Evicted,
}

// === impl Connection ===

impl Connection {
    /// A connection that was just accepted.
    pub(super) fn new(entry: SlotStatus, timeouts: Timeouts) -> Self {
        Self {
            entry,
            timeouts,
            born: Instant::now(),
            changed: AtomicBool::new(true),
            received: AtomicBool::new(false),
            flushed: AtomicBool::new(true),
            blocked: AtomicU64::new(0),
            exchange: Mutex::new(HttpExchange::NONE),
        }
    }

    /// True if something changed since the last call.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Acquire)
    }

    /// True if part of a request's body is unread. Closing the connection then would destroy an answer on its way.
    pub(super) fn has_unread_body(&self) -> bool {
        !matches!(self.exchange.lock().intake, Intake::Whole)
    }

    /// The connection, for code that learns the user of a request on it.
    pub(super) fn place(&self, peer: SocketAddr) -> ConnectionPlace {
        ConnectionPlace::new(&self.entry, peer)
    }

    /// Marks the connection as only waiting for the client to close it.
    pub(super) fn closing(&self) -> Result<(), Evicted> {
        self.entry.enter(ConnectionState::Closing, Instant::now())
    }

    fn change(&self) {
        self.changed.store(true, Ordering::Release);
    }

    fn replace_intake(&self, intake: Intake) {
        // dropped after the lock is released
        let _before = std::mem::replace(&mut self.exchange.lock().intake, intake);
        self.change();
    }
}

/// Called by the socket.
impl Connection {
    pub(super) fn received(&self) {
        self.received.store(true, Ordering::Relaxed);
        self.change();
    }

    /// The socket took bytes, or did not.
    pub(super) fn wrote<T>(&self, written: &Poll<T>) {
        let blocked = self.blocked.load(Ordering::Relaxed);
        match written {
            Poll::Ready(_) if blocked != 0 => {
                self.blocked.store(0, Ordering::Relaxed);
                self.change();
            }
            Poll::Pending if blocked == 0 => {
                let millis = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
                self.blocked.store(millis + 1, Ordering::Relaxed);
                self.change();
            }
            _ => {}
        }
    }

    pub(super) fn flushed(&self) {
        if !self.flushed.swap(true, Ordering::Relaxed) {
            self.change();
        }
    }
}

/// Called by the request and its response.
impl Connection {
    /// A request begins. Refused if the connection is being closed to make room.
    pub(super) fn begin(&self, body: &Incoming) -> Result<(), Evicted> {
        self.received.store(false, Ordering::Relaxed);
        let (intake, state) = if body.is_end_stream() {
            (Intake::Whole, ConnectionState::Request)
        } else {
            (Intake::Held(Pace::new(self.timeouts.body)), ConnectionState::Body)
        };
        *self.exchange.lock() = HttpExchange { intake, delivery: ResponseProgress::Pending };
        self.change();
        self.entry.enter(state, Instant::now())
    }

    /// The handler waits for bytes of the body.
    pub(super) fn awaits_body(&self) {
        let mut exchange = self.exchange.lock();
        if let Intake::Held(pace) = exchange.intake {
            exchange.intake = Intake::Awaited(pace, Instant::now());
            self.change();
        }
    }

    /// The handler got bytes of the body, and more follow.
    pub(super) fn got_body(&self, bytes: usize) {
        let now = Instant::now();
        let mut exchange = self.exchange.lock();
        let judged = match exchange.intake {
            Intake::Held(pace) => pace.received(bytes, now, now),
            Intake::Awaited(pace, since) => pace.received(bytes, since, now),
            _ => return,
        };
        exchange.intake = judged.map_or(Intake::Overdue, Intake::Held);
    }

    /// The body has been read to its end.
    pub(super) fn has_body(&self) {
        self.replace_intake(Intake::Whole);
    }

    /// The handler is done with a body that has not ended.
    pub(super) fn leaves_body(&self, body: Incoming) {
        if self.is_overdue() {
            return self.abandons_body();
        }
        self.replace_intake(Intake::Left(Remainder { body, since: Instant::now(), discarded: 0 }));
    }

    /// The rest of the body cannot be read.
    pub(super) fn abandons_body(&self) {
        self.replace_intake(Intake::Abandoned);
    }

    /// True if the client sent the body too slowly.
    pub(super) fn is_overdue(&self) -> bool {
        matches!(self.exchange.lock().intake, Intake::Overdue)
    }

    /// The handler has answered. If too much of the body is left to discard, the answer announces the end of the
    /// connection (RFC 9112 9.6). A chunked body always counts as too much, because its length is unknown.
    pub(super) fn answers(&self, response: &mut Response) -> Result<(), Evicted> {
        let mut exchange = self.exchange.lock();
        let ends = match &exchange.intake {
            Intake::Left(rest) => rest.body.size_hint().exact().is_none_or(|length| length > MAX_DISCARDED),
            Intake::Overdue | Intake::Abandoned => true,
            Intake::Whole | Intake::Held(_) | Intake::Awaited(..) => false,
        };
        exchange.delivery = ResponseProgress::Sending;
        self.change();
        if ends {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            let _before = std::mem::replace(&mut exchange.intake, Intake::Abandoned);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            exchange.delivery = ResponseProgress::Upgraded;
            return self.entry.enter(ConnectionState::Upgraded, Instant::now());
        }
        Ok(())
    }

    /// The body of the response has ended.
    pub(super) fn sent(&self) {
        let mut exchange = self.exchange.lock();
        if exchange.delivery == ResponseProgress::Sending {
            exchange.delivery = ResponseProgress::Sent;
            self.flushed.store(false, Ordering::Relaxed);
            self.change();
        }
    }
}

/// Called by the driver.
impl Connection {
    /// Records all events until `now`, and returns the next step.
    pub(super) fn advance(&self, cx: &mut Context<'_>, now: Instant) -> DriverStep {
        let mut exchange = self.exchange.lock();
        discard(&mut exchange.intake, cx);
        let done = exchange.delivery == ResponseProgress::Sent && self.flushed.load(Ordering::Relaxed);
        if done && matches!(exchange.intake, Intake::Whole) {
            *exchange = HttpExchange::NONE;
            self.received.store(false, Ordering::Relaxed);
        }
        let before = self.entry.state();
        let state = self.state(&exchange, before);
        let entered = match (before, state) {
            _ if before == state => Ok(()),
            // a reader that takes a byte now and then counts as slow too
            (ConnectionState::Request, ConnectionState::Stalled)
            | (ConnectionState::Stalled, ConnectionState::Request) => self.entry.enter_within_request(state),
            _ => self.entry.enter(state, now),
        };
        if entered.is_err() {
            return DriverStep::End(ConnectionEnd::Evicted);
        }
        if self.blocked_until().is_some_and(|until| until <= now) {
            return DriverStep::End(ConnectionEnd::Write);
        }
        if let Some(next) = overdue(&mut exchange, now) {
            return next;
        }
        let deadline = self.state_deadline(state);
        match (deadline, state) {
            (Some(deadline), ConnectionState::Head) if deadline <= now => DriverStep::End(ConnectionEnd::Head),
            (Some(deadline), ConnectionState::Idle) if deadline <= now => DriverStep::Retire,
            (Some(deadline), ConnectionState::Draining) if deadline <= now => DriverStep::End(ConnectionEnd::Body),
            _ => DriverStep::Wait(
                [deadline, intake_deadline(&exchange.intake), self.blocked_until()].into_iter().flatten().min(),
            ),
        }
    }

    fn state(&self, exchange: &HttpExchange, before: ConnectionState) -> ConnectionState {
        let flushed = self.flushed.load(Ordering::Relaxed);
        match (exchange.delivery, &exchange.intake) {
            (ResponseProgress::None, _) if before == ConnectionState::Head || self.received.load(Ordering::Relaxed) => {
                ConnectionState::Head
            }
            (ResponseProgress::None, _) => ConnectionState::Idle,
            (ResponseProgress::Pending, Intake::Held(_) | Intake::Awaited(..)) => ConnectionState::Body,
            // also if the rest of the body was given up: hyper then closes the connection, unless the rest arrived just
            // then
            (ResponseProgress::Sent, Intake::Left(_) | Intake::Held(_) | Intake::Awaited(..) | Intake::Abandoned)
                if flushed =>
            {
                ConnectionState::Draining
            }
            (ResponseProgress::Upgraded, _) => ConnectionState::Upgraded,
            (ResponseProgress::Sending | ResponseProgress::Sent, _) if self.blocked.load(Ordering::Relaxed) != 0 => {
                ConnectionState::Stalled
            }
            (ResponseProgress::Pending | ResponseProgress::Sending | ResponseProgress::Sent, _) => {
                ConnectionState::Request
            }
        }
    }

    fn state_deadline(&self, state: ConnectionState) -> Option<Instant> {
        let timeout = match state {
            ConnectionState::Head => self.timeouts.head,
            ConnectionState::Idle => self.timeouts.idle,
            ConnectionState::Draining => DISCARD_TIMEOUT * 2,
            _ => return None,
        };
        Some(self.entry.since() + timeout)
    }

    fn blocked_until(&self) -> Option<Instant> {
        let blocked = self.blocked.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.born + Duration::from_millis(blocked) + WRITE_TIMEOUT)
    }
}

/// Reads and discards the part of the body that the handler left.
fn discard(intake: &mut Intake, cx: &mut Context<'_>) {
    let Intake::Left(rest) = intake else { return };
    loop {
        let next = match Pin::new(&mut rest.body).poll_frame(cx) {
            Poll::Pending => return,
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, bytes::Bytes::len);
                rest.discarded = rest.discarded.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
                if rest.discarded <= MAX_DISCARDED {
                    continue;
                }
                Intake::Abandoned
            }
            Poll::Ready(None) => Intake::Whole,
            Poll::Ready(Some(Err(_))) => Intake::Abandoned,
        };
        *intake = next;
        return;
    }
}

/// Decides what to do about a body that does not arrive.
fn overdue(exchange: &mut HttpExchange, now: Instant) -> Option<DriverStep> {
    match &exchange.intake {
        Intake::Awaited(pace, since) if pace.deadline(*since) <= now => match pace.judge(*since, now) {
            Ok(pace) => {
                exchange.intake = Intake::Awaited(pace, now);
                None
            }
            // bytes that came during a freeze are on their way to the handler
            Err(_) if was_frozen(pace.deadline(*since), now) => {
                exchange.intake = Intake::Awaited(*pace, now);
                None
            }
            Err(_) if exchange.delivery == ResponseProgress::Pending => {
                exchange.intake = Intake::Overdue;
                Some(DriverStep::Again)
            }
            Err(_) => Some(DriverStep::End(ConnectionEnd::Body)),
        },
        Intake::Overdue if exchange.delivery != ResponseProgress::Pending => Some(DriverStep::End(ConnectionEnd::Body)),
        Intake::Left(rest) if rest.since + DISCARD_TIMEOUT <= now => {
            exchange.intake = Intake::Abandoned;
            Some(DriverStep::Again)
        }
        _ => None,
    }
}

fn intake_deadline(intake: &Intake) -> Option<Instant> {
    match intake {
        Intake::Awaited(pace, since) => Some(pace.deadline(*since)),
        Intake::Left(rest) => Some(rest.since + DISCARD_TIMEOUT),
        Intake::Whole | Intake::Held(_) | Intake::Overdue | Intake::Abandoned => None,
    }
}
