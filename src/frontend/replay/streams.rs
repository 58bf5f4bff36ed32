//! Streamed answers of one session, while a client may resume them. Knows nothing of transports.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Bounds, Limits, ReplayBuffer, ReplayReader, event_id::EventIdPrefix};
use crate::frontend::frontend_settings::FrontendSettings;

/// Streamed answers of one session. Allocates nothing for a session without streams.
#[derive(Debug)]
pub(crate) struct AnswerStreams {
    inner: Mutex<Inner>,
    /// Prefix of the session's event ids.
    pub(crate) prefix: EventIdPrefix,
    bounds: Bounds,
    max: usize,
    keep: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    answers: BTreeMap<u64, Arc<ReplayBuffer>>,
    last: u64,
}

/// Number of the only stream of an answer, in its buffer.
const STREAM: u64 = 1;

impl AnswerStreams {
    /// Creates an empty table.
    pub(crate) fn new(prefix: EventIdPrefix, settings: &FrontendSettings) -> Self {
        let bounds = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
        Self { inner: Mutex::default(), prefix, bounds, max: settings.replay_streams, keep: settings.replay_for }
    }

    /// Opens a stream: its serial, its buffer and its first reader. Beyond the limits, the oldest ended streams are
    /// removed.
    pub(crate) fn open(&self) -> (u64, Arc<ReplayBuffer>, ReplayReader) {
        let buffer = ReplayBuffer::new(Limits::Call(self.bounds));
        let reader = buffer.attach();
        let mut inner = self.inner.lock();
        inner.last += 1;
        let serial = inner.last;
        inner.answers.insert(serial, Arc::clone(&buffer));
        self.trim(&mut inner, serial);
        (serial, buffer, reader)
    }

    /// Ends a stream. It is kept whatever its size, since its end may be unread; beyond the limits, other ended streams
    /// are removed.
    pub(crate) fn finish(&self, serial: u64, buffer: &ReplayBuffer) {
        buffer.finish();
        self.trim(&mut self.inner.lock(), serial);
    }

    fn trim(&self, inner: &mut Inner, spared: u64) {
        while inner.answers.len() > self.max || inner.bytes() > self.bounds.bytes {
            let has_ended =
                |(serial, buffer): &(&u64, &Arc<ReplayBuffer>)| **serial != spared && buffer.ended_at().is_some();
            let Some(oldest) = inner.answers.iter().find(has_ended).map(|(serial, _)| *serial) else { break };
            inner.answers.remove(&oldest);
        }
    }

    /// Resumes a stream after its message `after`; `None` if it is not kept.
    pub(crate) fn resume(&self, serial: u64, after: u64) -> Option<ReplayReader> {
        self.inner.lock().answers.get(&serial)?.resume(STREAM, after)
    }

    /// Removes streams that ended long enough ago.
    pub(crate) fn sweep(&self, now: Instant) {
        let kept = |buffer: &ReplayBuffer| {
            buffer.ended_at().is_none_or(|over| now.saturating_duration_since(over) < self.keep)
        };
        self.inner.lock().answers.retain(|_, buffer| kept(buffer));
    }
}

impl Inner {
    fn bytes(&self) -> usize {
        self.answers.values().map(|buffer| buffer.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::{Message, RequestId};

    fn streams(most: usize) -> AnswerStreams {
        AnswerStreams::new(
            EventIdPrefix::new("m".to_owned()),
            &FrontendSettings { replay_streams: most, ..FrontendSettings::default() },
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_kept_while_it_is_open_and_for_a_while_after() {
        let streams = streams(8);
        let ((one, over, _), (two, _running, _)) = (streams.open(), streams.open());
        over.finish();
        tokio::time::advance(Duration::from_secs(299)).await;
        streams.sweep(Instant::now());
        assert!(streams.resume(one, 0).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        streams.sweep(Instant::now());
        assert!(streams.resume(one, 0).is_none());
        assert!(streams.resume(two, 0).is_some());
        assert!(streams.resume(7, 0).is_none());
    }

    #[tokio::test]
    async fn beyond_the_limit_the_oldest_ended_stream_is_removed_and_no_open_one() {
        let streams = streams(2);
        let (one, _running, _) = streams.open();
        let (two, over, _) = streams.open();
        over.finish();
        let (three, ..) = streams.open();
        let kept = [one, two, three].map(|serial| streams.resume(serial, 0).is_some());
        assert_eq!(kept, [true, false, true]);
        let (four, ..) = streams.open();
        assert!(streams.resume(four, 0).is_some(), "what runs is bounded by the calls of the session");
    }

    #[tokio::test]
    async fn the_limit_applies_at_the_end_of_a_stream_too() {
        let settings = FrontendSettings { replay_bytes: 10, ..FrontendSettings::default() };
        let streams = AnswerStreams::new(EventIdPrefix::new("m".to_owned()), &settings);
        let result = || Message::result(RequestId::number(1), Bytes::from_static(b"\"12345678\""));
        let ((one, first, _), (two, second, _)) = (streams.open(), streams.open());
        for (serial, buffer) in [(one, first), (two, second)] {
            buffer.push(result());
            streams.finish(serial, &buffer);
        }
        assert!(streams.resume(one, 0).is_none());
        assert_eq!(streams.resume(two, 0).unwrap().next().await, Some((1, result())));
    }
}
