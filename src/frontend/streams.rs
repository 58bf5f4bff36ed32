//! The streams of one session's calls, for as long as a client may come back to them. Knows nothing of HTTP.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    event_id::Mark,
    settings::Settings,
    transcript::{Bounds, Reader, Transcript},
};

/// The transcripts of one session. Nothing is held for a session that does not stream.
#[derive(Debug)]
pub(crate) struct Streams {
    inner: Mutex<Inner>,
    /// What its event ids begin with.
    pub(crate) mark: Mark,
    bounds: Bounds,
    most: usize,
    kept_for: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    transcripts: BTreeMap<u64, Arc<Transcript>>,
    last: u64,
}

impl Streams {
    /// No streams yet.
    pub(crate) fn new(mark: Mark, settings: &Settings) -> Self {
        let bounds = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
        Self { inner: Mutex::default(), mark, bounds, most: settings.replay_streams, kept_for: settings.replay_for }
    }

    /// Begins a stream: its serial and its transcript. Where too many are kept, or too much, the oldest that are over are
    /// forgotten.
    pub(crate) fn open(&self) -> (u64, Arc<Transcript>) {
        let transcript = Transcript::new(self.bounds);
        let mut inner = self.inner.lock();
        inner.last += 1;
        let serial = inner.last;
        inner.transcripts.insert(serial, Arc::clone(&transcript));
        self.trim(&mut inner, serial);
        (serial, transcript)
    }

    /// Nothing follows on a stream. It is kept however large it is, since nobody may have read its end; where too much is
    /// kept, others that are over are forgotten.
    pub(crate) fn finish(&self, serial: u64, transcript: &Transcript) {
        transcript.finish();
        self.trim(&mut self.inner.lock(), serial);
    }

    fn trim(&self, inner: &mut Inner, spared: u64) {
        while inner.transcripts.len() > self.most || inner.bytes() > self.bounds.bytes {
            let over = |(serial, transcript): &(&u64, &Arc<Transcript>)| {
                **serial != spared && transcript.over_since().is_some()
            };
            let Some(oldest) = inner.transcripts.iter().find(over).map(|(serial, _)| *serial) else { break };
            inner.transcripts.remove(&oldest);
        }
    }

    /// The rest of a stream after its message `after`; `None` where it is not kept, or never was.
    pub(crate) fn resume(&self, serial: u64, after: u64) -> Option<Reader> {
        self.inner.lock().transcripts.get(&serial).map(|transcript| transcript.read_after(after))
    }

    /// Forgets the streams that have been over for long enough.
    pub(crate) fn sweep(&self, now: Instant) {
        let kept = |transcript: &Transcript| {
            transcript.over_since().is_none_or(|over| now.saturating_duration_since(over) < self.kept_for)
        };
        self.inner.lock().transcripts.retain(|_, transcript| kept(transcript));
    }
}

impl Inner {
    fn bytes(&self) -> usize {
        self.transcripts.values().map(|transcript| transcript.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::{Message, RequestId};

    fn streams(most: usize) -> Streams {
        Streams::new(Mark::new("m".to_owned()), &Settings { replay_streams: most, ..Settings::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_kept_while_it_goes_on_and_for_a_while_after() {
        let streams = streams(8);
        let ((one, transcript), (two, _running)) = (streams.open(), streams.open());
        transcript.finish();
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
    async fn beyond_the_bound_the_oldest_that_is_over_is_forgotten_and_none_that_runs() {
        let streams = streams(2);
        let (one, _running) = streams.open();
        let (two, over) = streams.open();
        over.finish();
        let (three, _) = streams.open();
        let kept = [one, two, three].map(|serial| streams.resume(serial, 0).is_some());
        assert_eq!(kept, [true, false, true]);
        let (four, _) = streams.open();
        assert!(streams.resume(four, 0).is_some(), "what runs is bounded by the calls of the session");
    }

    #[tokio::test]
    async fn what_a_session_keeps_is_bounded_when_its_streams_end_too() {
        let settings = Settings { replay_bytes: 10, ..Settings::default() };
        let streams = Streams::new(Mark::new("m".to_owned()), &settings);
        let result = || Message::result(RequestId::number(1), Bytes::from_static(b"\"12345678\""));
        let ((one, first), (two, second)) = (streams.open(), streams.open());
        for (serial, transcript) in [(one, first), (two, second)] {
            transcript.push(result());
            streams.finish(serial, &transcript);
        }
        assert!(streams.resume(one, 0).is_none());
        assert_eq!(streams.resume(two, 0).unwrap().next().await, Some((1, result())));
    }
}
