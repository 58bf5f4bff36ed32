//! The streamed answers of one session, for as long as a client may resume them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Limits, ReplayBuffer, ReplayReader,
    event_id::{CallStream, EventIdPrefix},
};
use crate::{
    frontend::frontend_settings::FrontendSettings,
    mcp::RequestId,
    support::{Account, byte_queue::Bounds},
};

/// Streamed answers of one session. Allocates nothing for a session without streams.
#[derive(Debug)]
pub(crate) struct AnswerStreams {
    inner: Mutex<Inner>,
    /// Prefix of the session's event ids.
    pub(crate) prefix: EventIdPrefix,
    bounds: Bounds,
    account: Account,
    max: usize,
    keep: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    answers: BTreeMap<u64, (CallStream, Arc<ReplayBuffer>)>,
    last: u64,
}

/// The part of an answer that follows an event.
#[derive(Debug)]
pub(crate) enum AnswerRest {
    /// Events that follow now, or may follow later.
    Events(CallStream, ReplayReader),
    /// Nothing, because the answer has ended.
    Nothing,
    /// The answer was not kept.
    Unknown,
}

/// Number of the only stream of an answer, in its buffer.
const STREAM: u64 = 1;

impl AnswerStreams {
    /// Creates an empty table.
    pub(crate) fn new(prefix: EventIdPrefix, settings: &FrontendSettings, account: Account) -> Self {
        let bounds = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
        let (max, keep) = (settings.replay_streams, settings.replay_for);
        Self { inner: Mutex::default(), prefix, bounds, account, max, keep }
    }

    /// Opens the stream for the answer to a request, or to a batch: its buffer and its first reader. If the session
    /// then has too many streams, the oldest ended ones are removed.
    pub(crate) fn open(&self, request: Option<&RequestId>) -> (CallStream, Arc<ReplayBuffer>, ReplayReader) {
        let buffer = ReplayBuffer::new(Limits::Call(self.bounds), self.account.clone());
        let reader = buffer.attach();
        let mut inner = self.inner.lock();
        inner.last += 1;
        let stream = CallStream::new(inner.last, request);
        inner.answers.insert(stream.serial(), (stream.clone(), Arc::clone(&buffer)));
        self.trim(&mut inner, stream.serial());
        (stream, buffer, reader)
    }

    /// Ends a stream. It is kept at any size, because its end may be unread. If the session then exceeds the limits,
    /// other ended streams are removed.
    pub(crate) fn finish(&self, stream: &CallStream, buffer: &ReplayBuffer) {
        buffer.finish();
        self.trim(&mut self.inner.lock(), stream.serial());
    }

    fn trim(&self, inner: &mut Inner, spared: u64) {
        while inner.answers.len() > self.max || inner.bytes() > self.bounds.bytes {
            let mut answers = inner.answers.iter();
            let oldest = answers.find(|(serial, (_, buffer))| **serial != spared && buffer.ended_at().is_some());
            let Some(oldest) = oldest.map(|(serial, _)| *serial) else { break };
            inner.answers.remove(&oldest);
        }
    }

    /// Resumes a stream after its event `after`.
    pub(crate) fn resume(&self, serial: u64, after: u64) -> AnswerRest {
        let inner = self.inner.lock();
        let Some((stream, buffer)) = inner.answers.get(&serial) else { return AnswerRest::Unknown };
        if buffer.is_over_after(after) {
            return AnswerRest::Nothing;
        }
        buffer.resume(STREAM, after).map_or(AnswerRest::Unknown, |reader| AnswerRest::Events(stream.clone(), reader))
    }

    /// Removes streams that ended long enough ago.
    pub(crate) fn sweep(&self, now: Instant) {
        let kept = |buffer: &ReplayBuffer| {
            buffer.ended_at().is_none_or(|over| now.saturating_duration_since(over) < self.keep)
        };
        self.inner.lock().answers.retain(|_, (_, buffer)| kept(buffer));
    }
}

impl Inner {
    fn bytes(&self) -> usize {
        self.answers.values().map(|(_, buffer)| buffer.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        mcp::{Message, RequestId},
        model::LimitsConfig,
    };

    fn streams(most: usize) -> AnswerStreams {
        AnswerStreams::new(
            EventIdPrefix::new("m".to_owned()),
            &FrontendSettings { replay_streams: most, ..FrontendSettings::with(LimitsConfig::default()) },
            Account::unbounded(),
        )
    }

    fn open(streams: &AnswerStreams) -> (u64, Arc<ReplayBuffer>, ReplayReader) {
        let (stream, buffer, reader) = streams.open(None);
        (stream.serial(), buffer, reader)
    }

    fn is_kept(streams: &AnswerStreams, serial: u64) -> bool {
        !matches!(streams.resume(serial, 0), AnswerRest::Unknown)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_kept_while_it_is_open_and_for_a_while_after() {
        let streams = streams(8);
        let ((one, over, _), (two, _running, _)) = (open(&streams), open(&streams));
        over.finish();
        tokio::time::advance(Duration::from_secs(299)).await;
        streams.sweep(Instant::now());
        assert!(is_kept(&streams, one));
        tokio::time::advance(Duration::from_secs(1)).await;
        streams.sweep(Instant::now());
        assert!(!is_kept(&streams, one));
        assert!(is_kept(&streams, two));
        assert!(!is_kept(&streams, 7));
    }

    #[tokio::test]
    async fn beyond_the_limit_the_oldest_ended_stream_is_removed_and_no_open_one() {
        let streams = streams(2);
        let (one, _running, _) = open(&streams);
        let (two, over, _) = open(&streams);
        over.finish();
        let (three, ..) = open(&streams);
        let kept = [one, two, three].map(|serial| is_kept(&streams, serial));
        assert_eq!(kept, [true, false, true]);
        let (four, ..) = open(&streams);
        assert!(is_kept(&streams, four), "what runs is bounded by the calls of the session");
    }

    #[tokio::test]
    async fn the_limit_applies_at_the_end_of_a_stream_too() {
        let settings = FrontendSettings { replay_bytes: 10, ..FrontendSettings::with(LimitsConfig::default()) };
        let streams = AnswerStreams::new(EventIdPrefix::new("m".to_owned()), &settings, Account::unbounded());
        let result = || Message::result(RequestId::number(1), Bytes::from_static(b"\"12345678\""));
        let ((one, first, _), (two, second, _)) = (open(&streams), open(&streams));
        for (serial, buffer) in [(one, first), (two, second)] {
            buffer.push(result());
            streams.finish(&CallStream::new(serial, None), &buffer);
        }
        assert!(!is_kept(&streams, one));
        let AnswerRest::Events(_, mut reader) = streams.resume(two, 0) else { panic!("not kept") };
        assert_eq!(reader.next().await, Some((1, result())));
        assert!(matches!(streams.resume(two, 1), AnswerRest::Nothing), "it was read to its end");
    }
}
