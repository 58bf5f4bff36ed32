//! The interface of all transports: sending messages, and receiving them.

use std::{
    future::ready,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use super::sloppy::{self, SloppyReading};
use crate::{
    mcp::{
        ErrorObject, Message, RequestId, Revision,
        error::{Retry, Unavailable},
        jsonrpc::{Frame, Malformed},
        mirrored_params::Mirror,
    },
    model::{BackendId, status::OutputLine},
    support::Account,
};

/// One connection to one server. The default methods suit a channel, on which all answers arrive in one stream.
pub(crate) trait Transport: Send + Sync {
    /// Sends a request, at once or when the exchange is polled.
    fn request(&self, request: Message, _: RequestTerms) -> Exchange {
        Exchange::after(self.send(request))
    }

    /// Sends a notification or an answer when the future is polled.
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>>;

    /// Waits until this replica may send: without a lease it may not.
    fn may_send(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// Sets the negotiated revision. Its rules apply to all later messages.
    fn negotiated(&self, _: Revision) {}

    /// Reports that the server accepted `notifications/initialized`: the transport may open a stream for messages
    /// outside of exchanges.
    fn opened(&self) {}

    /// Waits until the stream for messages outside of exchanges is open or refused, for at most 250 ms: some servers
    /// lose messages that they send before it is open. `None` if there is nothing to wait for.
    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// True if `initialize` was refused in the way of a server over HTTP+SSE (2024-11-05).
    fn may_be_http_sse(&self) -> bool {
        false
    }

    /// Location of the server, as seen from the connection; before it is open, [`ServerLocation::Elsewhere`].
    fn location(&self) -> ServerLocation {
        ServerLocation::Elsewhere
    }

    /// Calls on this transport without an answer; the connection counts them.
    fn unanswered(&self) -> UnansweredCalls {
        UnansweredCalls::default()
    }

    /// Ends the connection, within seconds.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// Keeps text that is not a message, for the status.
    fn passed_over(&self, _: &Bytes) {}

    /// The last lines that the server printed outside of its messages, oldest first.
    fn output(&self) -> Vec<OutputLine> {
        Vec::new()
    }

    /// Number of such lines so far.
    fn printed(&self) -> u64 {
        0
    }
}

/// The data that a transport needs besides the message of a request.
pub(crate) struct RequestTerms {
    /// Parameters to repeat in headers over HTTP (2026-07-28); `None` if there are none.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// Account of the caller. It pays for the request while it waits, and for its answer.
    pub(crate) account: Account,
}

/// Where the server at the other end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerLocation {
    /// On this machine: a program, a Unix domain socket, or a connection to a loopback address.
    ThisMachine,
    /// On another machine, or unknown.
    Elsewhere,
}

/// Number of calls that a server has not answered and that were not cancelled. Calls cut off by the end of the
/// connection still count: a program that works on one gets more time to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnansweredCalls(Arc<AtomicUsize>);

/// Where the answer to a request arrives.
pub(crate) enum Exchange {
    /// With the messages of the channel; the request has been sent.
    Channel,
    /// In a stream of its own, which may stay open after the answer.
    Own(BoxStream<'static, Result<Message, TransportError>>),
}

/// The messages that arrive outside of exchanges.
#[derive(Debug)]
pub(crate) enum ServerInput {
    /// Text of a message or of a batch.
    Text(Bytes),
    /// The connection is lost, for this reason. Nothing follows.
    Lost(String),
}

/// Everything from a server that arrives outside of exchanges.
pub(crate) type Incoming = BoxStream<'static, ServerInput>;

/// Why a message was not sent, or its answer not received.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    /// The session at the server has ended. The server did not process this message.
    #[error("{0}")]
    Gone(String),
    /// The server could not be reached. It did not receive this message.
    #[error("{0}")]
    Unreachable(String),
    /// The server rejected the message. The session continues.
    #[error("{0}")]
    Refused(String),
    /// The server rejected the credentials.
    #[error("{0}")]
    Denied(String),
    /// The server rejected the credentials, and only the user can get new ones.
    #[error("{0}")]
    LoginRequired(String),
    /// The answer was lost. The server may have processed the message.
    #[error("{0}")]
    Lost(String),
    /// The server failed during the message, and may have processed part of it.
    #[error("{0}")]
    Failed(String),
    /// The server accepts no messages at the moment. It did not process this one, and a retry is possible.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        /// The delay that the server asks for (`Retry-After`).
        retry_after: Option<Duration>,
    },
}

/// Why a call was not sent. It may be repeated on a new connection.
#[derive(Debug, Clone)]
pub(crate) struct NotSent(pub(crate) String);

impl TransportError {
    /// The error of a call to `backend`.
    ///
    /// # Errors
    ///
    /// [`NotSent`] if the server did not process the call.
    pub(crate) fn of_call(self, backend: &BackendId) -> Result<ErrorObject, NotSent> {
        let (message, reason, retry) = match self {
            Self::Gone(reason) | Self::Unreachable(reason) => return Err(NotSent(reason)),
            Self::Refused(reason) | Self::Denied(reason) => {
                (format!("Server `{backend}`: {reason}"), reason, Retry::Useless)
            }
            Self::LoginRequired(reason) => (format!("Server `{backend}`: {reason}"), reason, Retry::AfterLogin),
            Self::Lost(reason) => return Ok(lost_call(backend, &reason)),
            Self::Failed(reason) => {
                (format!("Server `{backend}`: {reason}. The call may have run"), reason, Retry::MayHaveRun)
            }
            Self::Unavailable { reason, .. } => (format!("Server `{backend}`: {reason}"), reason, Retry::Possible),
        };
        Ok(ErrorObject::unavailable(&message, &Unavailable { backend, reason: &reason, retry, supported: &[] }))
    }
}

/// The error of a call whose connection was lost before the answer arrived.
pub(crate) fn lost_call(backend: &BackendId, reason: &str) -> ErrorObject {
    let message = format!("The connection to server `{backend}` was lost: {reason}. The call may have run");
    let lost = Unavailable { backend, reason, retry: Retry::MayHaveRun, supported: &[] };
    ErrorObject::unavailable(&message, &lost)
}

// === impl UnansweredCalls ===

impl UnansweredCalls {
    /// Counts a call that begins.
    pub(crate) fn begun(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that was answered or cancelled.
    pub(crate) fn ended(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if any call has no answer.
    pub(crate) fn exist(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

// === impl ServerLocation ===

impl From<IpAddr> for ServerLocation {
    /// Location of a server at this address.
    fn from(peer: IpAddr) -> Self {
        if peer.to_canonical().is_loopback() { Self::ThisMachine } else { Self::Elsewhere }
    }
}

// === impl Exchange ===

impl Exchange {
    /// The exchange of a request on a channel: only an error if it cannot be sent. The stream does not end.
    pub(crate) fn after(sent: impl Future<Output = Result<(), TransportError>> + Send + 'static) -> Self {
        let failed = sent.into_stream().filter_map(async |sent| sent.err().map(Err));
        Self::Own(failed.chain(stream::pending()).boxed())
    }
}

/// An answer that breaks the protocol; its request gets no other answer.
#[derive(Debug)]
pub(crate) struct BrokenAnswer {
    /// Id of the request.
    pub(crate) id: RequestId,
    reason: String,
}

// === impl BrokenAnswer ===

impl BrokenAnswer {
    /// The id as one of the gateway's numbers.
    pub(crate) fn number(&self) -> Option<u64> {
        self.id.as_number().or_else(|| self.id.as_returned_number())
    }

    /// The error with which the request ends.
    pub(crate) fn error(self) -> TransportError {
        TransportError::Refused(format!("the server broke the protocol, its answer cannot be read: {}", self.reason))
    }
}

/// Parses a text from this server; see [`well_formed`].
pub(crate) fn messages(text: &Bytes, server: &BackendId) -> Vec<Result<Message, BrokenAnswer>> {
    well_formed(Frame::parse(text), text, server)
}

/// Messages in `text`. Invalid ones are logged and left out, so that they end neither the session nor other calls. An
/// unreadable answer fails its call only if it is not part of a batch: programs print texts of their callers among
/// their messages.
pub(crate) fn well_formed(
    read: Result<Frame, Malformed>,
    text: &Bytes,
    server: &BackendId,
) -> Vec<Result<Message, BrokenAnswer>> {
    let read = match read {
        Err(malformed) => match sloppy::read(text, &malformed) {
            Some(SloppyReading::Frame(frame)) => Ok(frame),
            Some(SloppyReading::Broken(id)) => {
                Err(Malformed::BrokenAnswer { id, reason: "it is no valid JSON".to_owned() })
            }
            None => Err(malformed),
        },
        read => read,
    };
    let frames = match read {
        Ok(Frame::Single(message)) => return vec![Ok(message)],
        Ok(Frame::Batch(messages)) => messages,
        Err(Malformed::BrokenAnswer { id, reason }) if !text.starts_with(b"[") => {
            let id_text = String::from_utf8_lossy(id.json());
            tracing::warn!(%server, id = %id_text, reason, "a server wrote an answer that cannot be read");
            return vec![Err(BrokenAnswer { id, reason })];
        }
        Err(malformed) => vec![Err(malformed)],
    };
    let (mut first, mut count) = (None, 0_usize);
    let messages = frames
        .into_iter()
        .filter_map(|message| {
            message.inspect_err(|_| count += 1).map_err(|malformed| _ = first.get_or_insert(malformed)).ok().map(Ok)
        })
        .collect();
    if let Some(malformed) = first {
        let start = sloppy::start(text);
        tracing::warn!(%server, %malformed, count, start, "a server wrote something that is no message; it is passed over");
    }
    messages
}
