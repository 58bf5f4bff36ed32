//! The interface of all transports: sent messages, and received ones. Knows nothing of their meaning.

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

/// One connection to one server. The default methods are those of a channel, where all answers arrive on one stream.
pub(crate) trait Transport: Send + Sync {
    /// Sends a request, at once or when the exchange is polled.
    fn request(&self, request: Message, _: RequestTerms) -> Exchange {
        Exchange::after(self.send(request))
    }

    /// Sends a notification or an answer when the future is polled.
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>>;

    /// Waits until a message may be sent at all: a replica without a lease sends none.
    fn may_send(&self) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }

    /// Sets the negotiated revision, whose rules hold for all further messages.
    fn negotiated(&self, _: Revision) {}

    /// Tells the transport that the server accepted `notifications/initialized`; a stream for messages outside of exchanges
    /// may be opened.
    fn opened(&self) {}

    /// Waits until the stream for messages outside of exchanges is open or refused, 250 ms at most: some servers lose what
    /// they send before it is open. `None` if the transport has no such stream.
    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// True if `initialize` was refused in a way that a server over HTTP+SSE (2024-11-05) does it.
    fn may_be_http_sse(&self) -> bool {
        false
    }

    /// Location of the server, as the connection itself shows it; before it is open, [`ServerLocation::Elsewhere`].
    fn location(&self) -> ServerLocation {
        ServerLocation::Elsewhere
    }

    /// The calls on this transport that have no answer yet; counted by the connection that makes them.
    fn unanswered(&self) -> UnansweredCalls {
        UnansweredCalls::default()
    }

    /// Ends the connection, within seconds.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// Keeps a text that was no message, for the status.
    fn passed_over(&self, _: &Bytes) {}

    /// The last lines that the server printed beside its messages, oldest first.
    fn output(&self) -> Vec<OutputLine> {
        Vec::new()
    }

    /// The number of these lines so far.
    fn printed(&self) -> u64 {
        0
    }
}

/// The surroundings of a request.
pub(crate) struct RequestTerms {
    /// Parameters that are repeated in headers, over HTTP (2026-07-28).
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// The account of the caller, which pays for the request while it waits and for its answer.
    pub(crate) account: Account,
}

/// Location of the server at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerLocation {
    /// On this machine: a program, a Unix domain socket, or a connection to a loopback address.
    ThisMachine,
    /// On another machine, or unknown.
    Elsewhere,
}

/// The number of calls that a server has not answered and that nobody cancelled. Those that the end of their connection cuts
/// off stay in it: a program that works on one gets more time to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnansweredCalls(Arc<AtomicUsize>);

/// The stream of a request's answer.
pub(crate) enum Exchange {
    /// None: the request was sent, and its answer arrives with the messages of the channel.
    Channel,
    /// Messages of its own exchange. The stream may stay open after the answer.
    Own(BoxStream<'static, Result<Message, TransportError>>),
}

/// A message from a server outside of exchanges, or the end of the connection.
#[derive(Debug)]
pub(crate) enum ServerInput {
    /// The text of a message, or of a batch.
    Text(Bytes),
    /// The connection is lost, for this reason. Nothing follows.
    Lost(String),
}

/// All messages from a server outside of exchanges.
pub(crate) type Incoming = BoxStream<'static, ServerInput>;

/// Failure to send a message or to receive its answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    /// The server's session has ended. The server did not process this message.
    #[error("{0}")]
    Gone(String),
    /// No connection to the server. It did not receive this message.
    #[error("{0}")]
    Unreachable(String),
    /// The server rejected the message. The session continues.
    #[error("{0}")]
    Refused(String),
    /// The server rejected the credentials.
    #[error("{0}")]
    Denied(String),
    /// The server rejected the credentials, and only the user can get others.
    #[error("{0}")]
    LoginRequired(String),
    /// The answer was lost. The server may have processed the message.
    #[error("{0}")]
    Lost(String),
    /// The server failed with the message in hand, and may have processed a part of it.
    #[error("{0}")]
    Failed(String),
    /// The server accepts no messages at the moment. It did not process this one, and a retry is possible.
    #[error("{reason}")]
    Unavailable {
        /// The reason.
        reason: String,
        /// The time that the server asks for before the next try (`Retry-After`).
        retry_after: Option<Duration>,
    },
}

/// The reason why a call was not sent. It may be repeated on a new connection.
#[derive(Debug, Clone)]
pub(crate) struct NotSent(pub(crate) String);

impl TransportError {
    /// The error of a call to this backend.
    ///
    /// # Errors
    ///
    /// If the server did not receive the call.
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

/// The error of a call whose connection was lost before its answer came.
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

    /// True if there is one.
    pub(crate) fn exist(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

// === impl ServerLocation ===

impl From<IpAddr> for ServerLocation {
    /// The location of a server that was connected to at this address.
    fn from(peer: IpAddr) -> Self {
        if peer.to_canonical().is_loopback() { Self::ThisMachine } else { Self::Elsewhere }
    }
}

// === impl Exchange ===

impl Exchange {
    /// The exchange of a request on a channel: an error if it cannot be sent, else no message and no end.
    pub(crate) fn after(sent: impl Future<Output = Result<(), TransportError>> + Send + 'static) -> Self {
        let failed = sent.into_stream().filter_map(async |sent| sent.err().map(Err));
        Self::Own(failed.chain(stream::pending()).boxed())
    }
}

/// An answer that breaks the protocol, so that its request gets no other.
#[derive(Debug)]
pub(crate) struct BrokenAnswer {
    /// The request.
    pub(crate) id: RequestId,
    reason: String,
}

// === impl BrokenAnswer ===

impl BrokenAnswer {
    /// The request as the number of one of the gateway's.
    pub(crate) fn number(&self) -> Option<u64> {
        self.id.as_number().or_else(|| self.id.as_returned_number())
    }

    /// The end of the request.
    pub(crate) fn error(self) -> TransportError {
        TransportError::Refused(format!("the server broke the protocol, its answer cannot be read: {}", self.reason))
    }
}

/// Parses one text of this server, as [`well_formed`].
pub(crate) fn messages(text: &Bytes, server: &BackendId) -> Vec<Result<Message, BrokenAnswer>> {
    well_formed(Frame::parse(text), text, server)
}

/// The messages of `text`. Invalid ones are logged and left out, so that they end neither the session nor other calls.
/// Only an answer that stands by itself can end its own call: programs print their callers' texts among their messages.
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
