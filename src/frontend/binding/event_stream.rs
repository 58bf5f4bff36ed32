//! One stream of events on its way to a client: what it is told, the comments in between, and when it ends. Knows nothing
//! of calls and of sessions.

use std::{future::pending, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::sleep;

use super::response;
use crate::{
    frontend::{
        event_id::{EventId, Mark, StreamId},
        outbox::Attached,
        transcript::Reader,
    },
    mcp::Message,
    wire::sse,
};

/// How long a client is to wait before it comes back to a stream that was closed.
const RETRY: Duration = Duration::from_secs(1);

/// Where the messages come from.
pub(crate) enum Source {
    /// A call.
    Call(u64, Reader),
    /// What is said outside of calls.
    Standalone(Attached),
}

/// How a stream begins, is numbered and ends.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// What comes first; `None`: a comment, which flushes the headers.
    pub(crate) opening: Option<Bytes>,
    /// Whether the client can come back: what its event ids begin with.
    pub(crate) ids: Option<Mark>,
    /// Whether the client takes an event without a message, by which it learns an id at once (2025-11-25).
    pub(crate) priming: Priming,
    /// How long it stays open, where the client comes back by itself.
    pub(crate) lifetime: Option<Duration>,
}

/// Whether a stream begins with an event that carries an id and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priming {
    /// Clients of this version cannot read it.
    Never,
    /// 2025-11-25, transports, *Sending Messages*: at once.
    First,
}

/// The events, until nothing follows or `end`.
pub(crate) fn events(
    mut source: Source,
    manner: Manner,
    end: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        yield manner.first(&source);
        let mut heartbeat = response::heartbeat();
        let lifetime = async {
            match manner.lifetime {
                Some(lifetime) => sleep(lifetime).await,
                None => pending().await,
            }
        };
        tokio::pin!(end, lifetime);
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                () = &mut lifetime => break,
                told = source.next() => match told {
                    Some((id, message)) => yield manner.event(id, &message),
                    None => break,
                },
                _ = heartbeat.tick() => yield sse::KEEP_ALIVE,
            }
        }
    }
}

// === impl Source ===

impl Source {
    async fn next(&mut self) -> Option<(EventId, Message)> {
        match self {
            Self::Call(serial, reader) => {
                let stream = StreamId::Call(*serial);
                reader.next().await.map(|(number, message)| (EventId { stream, number }, message))
            }
            Self::Standalone(attached) => {
                let stream = StreamId::Standalone(attached.serial());
                attached.next().await.map(|(number, message)| (EventId { stream, number }, message))
            }
        }
    }

    /// The id from which on nothing has been told.
    const fn start(&self) -> EventId {
        match self {
            Self::Call(serial, reader) => EventId { stream: StreamId::Call(*serial), number: reader.read() },
            Self::Standalone(attached) => {
                EventId { stream: StreamId::Standalone(attached.serial()), number: attached.read() }
            }
        }
    }
}

// === impl Manner ===

impl Manner {
    fn first(&self, source: &Source) -> Bytes {
        match (&self.opening, &self.ids, self.priming) {
            (Some(opening), ..) => opening.clone(),
            (None, Some(mark), Priming::First) => sse::priming(&mark.write(source.start()), RETRY),
            (None, ..) => sse::KEEP_ALIVE,
        }
    }

    fn event(&self, id: EventId, message: &Message) -> Bytes {
        match &self.ids {
            Some(mark) => sse::numbered(&mark.write(id), &message.encode()),
            None => sse::message(&message.encode()),
        }
    }
}
