//! The interface of every transport: a way to send messages, and the messages that come. Knows nothing of their meaning.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use crate::{
    mcp::{
        ErrorObject, Message, Revision,
        error::{Retry, Unavailable},
        jsonrpc::{Frame, Malformed},
        mirrored::Mirror,
    },
    model::BackendId,
};

/// One connection to one server. A session has one and closes it. The methods that have a body are those of a channel.
pub(crate) trait Transport: Send + Sync {
    /// Sends a request; what `mirror` holds of its parameters goes beside it where the transport has a place for it
    /// (2026-07-28). It may be sent at once, or when the exchange is polled.
    fn request(&self, request: Message, _: Option<Arc<Mirror>>) -> Exchange {
        Exchange::after(self.send(request))
    }

    /// Sends a notification or an answer when the future is polled.
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>>;

    /// The handshake settled on this revision: from here on, messages are sent as it says.
    fn negotiated(&self, _: Revision) {}

    /// The server accepted `notifications/initialized`: it may be listened to.
    fn opened(&self) {}

    /// The wait until the stream for messages outside of exchanges is open or refused, up to 250 ms after
    /// [`Transport::opened`]: a request that the server sends before that is lost. `None` if there is nothing to wait for.
    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// True if `initialize` was refused in a way that a server over HTTP+SSE (2024-11-05) does it.
    fn may_be_http_sse(&self) -> bool {
        false
    }

    /// Ends the connection, within seconds.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// The last lines that the server wrote beside the protocol, oldest first.
    fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a request opens.
pub(crate) enum Exchange {
    /// Nothing: it is sent, and its answer arrives with everything else.
    Channel,
    /// An exchange: what comes on it. It need not end.
    Own(BoxStream<'static, Result<Message, TransportError>>),
}

/// What comes from a server outside of any exchange.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The text of a message, or of a batch.
    Text(Bytes),
    /// The connection is gone, and nothing follows.
    Lost(String),
}

/// Everything that comes from a server outside of any exchange.
pub(crate) type Incoming = BoxStream<'static, Arrival>;

/// Why a message did not get through, or its answer did not come.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum TransportError {
    /// The session at the server is gone, and this message has certainly not been acted on.
    #[error("{0}")]
    Gone(String),
    /// The server cannot even be connected to, so that this message has certainly not been acted on.
    #[error("{0}")]
    Unreachable(String),
    /// The server turned the message down, and the session goes on.
    #[error("{0}")]
    Refused(String),
    /// The server wants other credentials.
    #[error("{0}")]
    Denied(String),
    /// The answer was lost; the message may have been acted on or not.
    #[error("{0}")]
    Lost(String),
    /// The server cannot take messages at the moment; it may be tried again.
    #[error("{0}")]
    Unavailable(String),
}

/// A call was not made and may be made again on a connection that is fresh: why.
#[derive(Debug, Clone)]
pub(crate) struct NotSent(pub(crate) String);

impl TransportError {
    /// The error of a call to this backend that ended so.
    ///
    /// # Errors
    ///
    /// Where the call has certainly not run.
    pub(crate) fn of_call(self, backend: &BackendId) -> Result<ErrorObject, NotSent> {
        let (message, reason, retry) = match self {
            Self::Gone(reason) | Self::Unreachable(reason) => return Err(NotSent(reason)),
            Self::Refused(reason) | Self::Denied(reason) => {
                (format!("Backend `{backend}`: {reason}"), reason, Retry::Useless)
            }
            Self::Lost(reason) => {
                (format!("The connection to backend `{backend}` was lost: {reason}"), reason, Retry::Possible)
            }
            Self::Unavailable(reason) => (format!("Backend `{backend}`: {reason}"), reason, Retry::Possible),
        };
        Ok(ErrorObject::unavailable(&message, &Unavailable { backend, reason: &reason, retry, supported: &[] }))
    }
}

// === impl Exchange ===

impl Exchange {
    /// What a request opens on a channel once it is sent: nothing, unless it cannot be.
    pub(crate) fn after(sent: impl Future<Output = Result<(), TransportError>> + Send + 'static) -> Self {
        let failed = sent.into_stream().filter_map(async |sent| sent.err().map(Err));
        Self::Own(failed.chain(stream::pending()).boxed())
    }
}

/// The messages in one text, as [`well_formed`].
pub(crate) fn messages(text: &Bytes) -> Vec<Message> {
    well_formed(Frame::parse(text), text)
}

/// The messages that were read from `text`. What is no message is logged and left out: a server's slips end neither its
/// session nor other calls.
pub(crate) fn well_formed(read: Result<Frame, Malformed>, text: &Bytes) -> Vec<Message> {
    let frames = match read {
        Ok(Frame::Single(message)) => return vec![message],
        Ok(Frame::Batch(messages)) => messages,
        Err(malformed) => vec![Err(malformed)],
    };
    let well_formed = |message: Result<Message, _>| match message {
        Ok(message) => Some(message),
        Err(malformed) => {
            let start: String = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
            tracing::warn!(%malformed, start, "a server wrote something that is no message; it is passed over");
            None
        }
    };
    frames.into_iter().filter_map(well_formed).collect()
}
