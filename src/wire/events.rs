//! Parser of server-sent events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use memchr::memmem;
use sse_stream::SseByteStream;

use crate::support::{
    Account,
    memory::{Claim, Exhausted},
};

/// Maximum size of an event in bytes.
pub const MAX_EVENT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; `None` means `message`.
    pub name: Option<String>,
    /// Its data; empty in a priming event (2025-11-25 transports).
    pub data: Bytes,
    /// Its id, if any.
    pub id: Option<String>,
    /// The delay before reconnection, if it has one.
    pub retry: Option<Duration>,
}

/// An error that ends the events.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// An event is larger than [`MAX_EVENT`].
    #[error("an event is larger than {MAX_EVENT} bytes")]
    TooLarge,
    /// There is no memory for an event, or no longer.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The connection broke, or the body is no event stream.
    #[error("the event stream broke: {0}")]
    Broken(String),
}

/// The events in `bytes`, without comments. An incomplete event is charged to `account`. An error is the last item.
pub fn events<S, E>(bytes: S, account: Account) -> impl Stream<Item = Result<SseEvent, EventsError>> + Send
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin,
    E: std::error::Error + Send + Sync + 'static,
{
    let unread = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&unread);
    let mut claim = Claim::nothing(account);
    let mut cut = Vec::new();
    let bounded = bytes.map(move |chunk| {
        let chunk = chunk.map_err(|error| EventsError::Broken(error.to_string()))?;
        let chunk = decoded(chunk, &mut cut);
        let size = match last_blank_line(&chunk) {
            // comments without an event end with a blank line too: a stream may bring only those for months
            Some(at) => {
                counter.store(chunk.len() - at, Ordering::Relaxed);
                chunk.len() - at
            }
            None => counter.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len(),
        };
        if size > MAX_EVENT {
            return Err(EventsError::TooLarge);
        }
        if size < claim.bytes() {
            claim.clear();
        }
        claim.grow(size - claim.bytes())?;
        Ok(chunk)
    });
    SseByteStream::new(bounded).map(move |event| {
        unread.store(0, Ordering::Relaxed);
        event.map(SseEvent::from).map_err(EventsError::from)
    })
}

/// The chunk as UTF-8, with U+FFFD for invalid bytes (HTML, server-sent events). A character that is `cut` off at its
/// end is kept for the next chunk.
fn decoded(chunk: Bytes, cut: &mut Vec<u8>) -> Bytes {
    if cut.is_empty() && std::str::from_utf8(&chunk).is_ok() {
        return chunk;
    }
    let whole = [std::mem::take(cut).as_slice(), &chunk].concat();
    let mut text = String::with_capacity(whole.len());
    for part in whole.utf8_chunks() {
        text.push_str(part.valid());
        let is_cut = std::str::from_utf8(part.invalid()).is_err_and(|error| error.error_len().is_none());
        if is_cut && whole.ends_with(part.invalid()) {
            *cut = part.invalid().to_vec();
        } else if !part.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text.into()
}

/// The place of the last blank line that lies entirely in this chunk.
fn last_blank_line(chunk: &[u8]) -> Option<usize> {
    [&b"\n\n"[..], b"\n\r\n", b"\r\r"].into_iter().find_map(|line| memmem::rfind(chunk, line))
}

// === impl SseEvent ===

impl SseEvent {
    /// True if it carries a message: it is unnamed or named `message`, and has data.
    pub fn is_message(&self) -> bool {
        !self.data.is_empty() && self.name.as_deref().is_none_or(|name| name.is_empty() || name == "message")
    }
}

impl From<sse_stream::Sse> for SseEvent {
    fn from(event: sse_stream::Sse) -> Self {
        Self {
            name: event.event,
            data: event.data.unwrap_or_default().into(),
            id: event.id,
            retry: event.retry.map(Duration::from_millis),
        }
    }
}

// === impl EventsError ===

impl From<sse_stream::Error> for EventsError {
    fn from(error: sse_stream::Error) -> Self {
        match error {
            sse_stream::Error::Body(cause) => match cause.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Broken(other.to_string()),
            },
            other => Self::Broken(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::stream;

    use super::*;

    async fn read(chunks: Vec<Bytes>) -> Vec<Result<SseEvent, EventsError>> {
        events(stream::iter(chunks.into_iter().map(Ok::<_, io::Error>)), Account::unbounded()).collect().await
    }

    #[tokio::test]
    async fn events_are_complete_however_the_bytes_are_split() {
        let text = ": hello\n\nid: 1\nretry: 20\ndata:\n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: other\ndata: x\n\n";
        let read = read(text.bytes().map(|byte| Bytes::copy_from_slice(&[byte])).collect()).await;
        let read: Vec<SseEvent> = read.into_iter().map(Result::unwrap).collect();
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].id.as_deref(), read[0].retry), (Some("1"), Some(Duration::from_millis(20))));
        assert_eq!(read.iter().map(SseEvent::is_message).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(read[1].data, "{\"a\":\n1}");
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_become_replacement_characters_however_they_are_split() {
        let text = b"data: \xe2\x82\xac caf\xe9 \xf0\x9f\x98\ndata: \xff\n\n";
        for size in [1, 2, 3, text.len()] {
            let read = read(text.chunks(size).map(Bytes::copy_from_slice).collect()).await;
            let expected = "\u{20ac} caf\u{fffd} \u{fffd}\n\u{fffd}";
            assert!(matches!(read.as_slice(), [Ok(event)] if event.data == expected), "{size}: {read:?}");
        }
    }

    #[tokio::test]
    async fn the_size_of_an_event_is_limited() {
        let chunk = Bytes::from(format!("data: {}\n", "x".repeat(1 << 20)));
        let read = read(vec![chunk; 20]).await;
        assert!(matches!(read.as_slice(), [Err(EventsError::TooLarge)]));
    }

    #[tokio::test]
    async fn comments_are_not_counted() {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let comments = Bytes::from(format!(": still here{end}").repeat(1 << 16));
            let mut chunks = vec![comments; 20];
            chunks.push(Bytes::from(format!("data: x{end}")));
            let read = read(chunks).await;
            assert!(matches!(read.as_slice(), [Ok(event)] if event.data == "x"), "{end:?}: {read:?}");
        }
    }
}
