//! A stream of server-sent events: messages, comments in between, and its end. Knows nothing of calls and of sessions.

use std::{future::pending, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::sleep;

use super::response;
use crate::{
    frontend::replay::{
        ReplayReader,
        event_id::{EventId, EventIdPrefix, StreamId},
    },
    mcp::Message,
    wire::sse,
};

/// How long a client is to wait before it comes back to a stream that was closed.
const RETRY: Duration = Duration::from_secs(1);

/// The source of the messages.
pub(crate) enum Source {
    /// A call.
    Call(u64, ReplayReader),
    /// What is said outside of calls.
    Standalone(ReplayReader),
}

/// The beginning, the numbering and the lifetime of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamOptions {
    /// What comes first; `None`: a comment, which flushes the headers.
    pub(crate) opening: Option<Bytes>,
    /// Whether the client can come back: what its event ids begin with.
    pub(crate) ids: Option<EventIdPrefix>,
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
    options: StreamOptions,
    end: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        yield options.first(&source);
        let mut heartbeat = response::heartbeat();
        let lifetime = async {
            match options.lifetime {
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
                    Some((id, message)) => yield options.event(id, &message),
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
            Self::Standalone(reader) => {
                let stream = StreamId::Standalone(reader.stream());
                reader.next().await.map(|(number, message)| (EventId { stream, number }, message))
            }
        }
    }

    /// The id from which on nothing has been told.
    const fn start(&self) -> EventId {
        match self {
            Self::Call(serial, reader) => EventId { stream: StreamId::Call(*serial), number: reader.after() },
            Self::Standalone(reader) => {
                EventId { stream: StreamId::Standalone(reader.stream()), number: reader.after() }
            }
        }
    }
}

// === impl StreamOptions ===

impl StreamOptions {
    fn first(&self, source: &Source) -> Bytes {
        match (&self.opening, &self.ids, self.priming) {
            (Some(opening), ..) => opening.clone(),
            (None, Some(prefix), Priming::First) => sse::priming(&prefix.write(source.start()), RETRY),
            (None, ..) => sse::KEEP_ALIVE,
        }
    }

    fn event(&self, id: EventId, message: &Message) -> Bytes {
        match &self.ids {
            Some(prefix) => sse::numbered(&prefix.write(id), &message.encode()),
            None => sse::message(&message.encode()),
        }
    }
}
