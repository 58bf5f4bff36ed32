//! Limits for what the peer of a WebSocket (RFC 6455) can make this side hold, judged by the incoming bytes: the
//! library answers pings and joins fragments before the layers above see them.
//!
//! - While the answer to a ping cannot be written, reading stops.
//! - Control frames have a rate.
//! - An incomplete message has the deadline of a request body. Control frames do not extend it.

pub(crate) mod frame_reader;

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tokio_tungstenite::tungstenite::{
    self,
    protocol::{
        CloseFrame, WebSocketConfig,
        frame::{Utf8Bytes, coding::CloseCode},
    },
};

use self::frame_reader::FrameReader;
use crate::support::{
    Account,
    memory::{Claim, Exhausted, STEP},
    off_worker::{is_large, poll_off_worker},
    pace::{Pace, TooSlow},
    piece::CONNECTION_BUFFER,
};

/// Maximum number of control frames at once.
const MAX_CONTROL_FRAMES: u32 = 100;
/// One more is accepted after this.
const CONTROL_FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum size of data queued for a peer that does not read: the message being written, and answers to pings.
const MAX_WRITE_BUFFER: usize = 128 * 1024 * 1024;

/// The bytes of a WebSocket within its limits. One task or two may read and write it, as halves of a `WebSocketStream`:
/// a write that becomes possible wakes the reader too.
#[derive(Debug)]
pub struct LimitedStream<S> {
    inner: S,
    frames: FrameReader,
    control: ControlFrames,
    /// Silence in a message before it is given up.
    message_timeout: Duration,
    unfinished: Option<UnfinishedMessage>,
    /// For the incomplete message.
    claim: Claim,
    /// True after a ping whose answer may not be written yet.
    owes_pong: bool,
    /// True if the last write had to wait.
    is_blocked: bool,
    /// True if the last read brought something.
    flows: bool,
}

/// The reason for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketViolation {
    /// Too many control frames.
    #[error("too many control frames: {MAX_CONTROL_FRAMES} at once, then 10 a second")]
    ControlFrames,
    /// A message did not arrive in time.
    #[error("a message was begun and did not arrive in time")]
    SlowMessage,
    /// There is no memory for a message, or no longer.
    #[error("the memory for messages is used up, and too much of it by this side; try again later")]
    Exhausted,
}

/// A bucket of control frames (GCRA).
#[derive(Debug, Default)]
struct ControlFrames {
    full_at: Option<Instant>,
}

/// An incomplete message or frame.
#[derive(Debug)]
struct UnfinishedMessage {
    pace: Pace,
    /// The start of the present wait for more of it.
    waits: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    /// Ready once it has to be given up; set from the first wait on.
    reclaimed: Option<Reclaimed>,
}

/// The wait for a message that has to be given up.
struct Reclaimed(Pin<Box<dyn Future<Output = Exhausted> + Send>>);

/// The settings of a WebSocket whose incoming messages have at most this size.
pub fn config(max_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(CONNECTION_BUFFER)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
        .max_write_buffer_size(MAX_WRITE_BUFFER)
}

// === impl LimitedStream ===

impl<S> LimitedStream<S> {
    /// A connection that has been upgraded. In a message, silence of `message_timeout` ends it. An incomplete message
    /// is charged to `account`.
    pub fn upgraded(inner: S, message_timeout: Duration, account: Account) -> Self {
        Self::new(inner, FrameReader::upgraded(), message_timeout, account)
    }

    /// A connection that begins with the response to the upgrade.
    pub fn upgrading(inner: S, message_timeout: Duration, account: Account) -> Self {
        Self::new(inner, FrameReader::upgrading(), message_timeout, account)
    }

    fn new(inner: S, frames: FrameReader, message_timeout: Duration, account: Account) -> Self {
        let (control, claim) = (ControlFrames { full_at: None }, Claim::nothing(account));
        let (owes_pong, is_blocked, flows) = (false, false, false);
        Self { inner, frames, control, message_timeout, unfinished: None, claim, owes_pong, is_blocked, flows }
    }

    /// Checks what was read against the limits.
    fn received(&mut self, bytes: &[u8], now: Instant) -> Result<(), WebSocketViolation> {
        let seen = self.frames.feed(bytes);
        self.owes_pong = seen.ping;
        self.control.take(seen.control, now)?;
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.received(seen.data, now)?;
        }
        if seen.ended || !self.frames.is_unfinished() {
            self.unfinished = None;
            self.claim.clear();
        }
        if self.frames.is_unfinished() {
            self.unfinished.get_or_insert_with(|| UnfinishedMessage::new(self.message_timeout));
            self.claim.grow(seen.data).map_err(|Exhausted| WebSocketViolation::Exhausted)?;
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> LimitedStream<S> {
    /// Reads one byte, to find out on the worker whether there is anything worth leaving it for.
    fn poll_read_byte(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut byte = ReadBuf::new(buf.initialize_unfilled_to(1.min(buf.remaining())));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut byte))?;
        let read = byte.filled().len();
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.owes_pong && self.is_blocked {
            return Poll::Pending;
        }
        let (start, pending) = (buf.filled().len(), self.claim.bytes());
        let read = if !is_large(pending) {
            Pin::new(&mut self.inner).poll_read(cx, buf)
        } else if self.flows {
            // the library's buffer gets its pages, and at the end of a message all of it is unmasked and checked
            ready!(poll_off_worker(pending, cx));
            Pin::new(&mut self.inner).poll_read(cx, buf)
        } else {
            self.poll_read_byte(cx, buf)
        };
        self.flows = read.is_ready();
        if let Poll::Ready(read) = read {
            read?;
            let bytes = buf.filled().get(start..).unwrap_or_default();
            return Poll::Ready(self.received(bytes, Instant::now()).map_err(io::Error::other));
        }
        let Self { unfinished: Some(unfinished), claim, .. } = &mut *self else { return Poll::Pending };
        if unfinished.poll_reclaimed(claim, cx).is_ready() {
            return Poll::Ready(Err(io::Error::other(WebSocketViolation::Exhausted)));
        }
        Poll::Ready(Err(io::Error::other(ready!(unfinished.poll_overdue(cx)))))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.is_blocked = written.is_pending();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.is_blocked = flushed.is_pending();
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

// === impl WebSocketViolation ===

impl WebSocketViolation {
    /// The violation behind an error of the library, if any.
    pub fn of(error: &tungstenite::Error) -> Option<Self> {
        let tungstenite::Error::Io(error) = error else { return None };
        error.get_ref()?.downcast_ref().copied()
    }

    /// The value of the label `reason` in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ControlFrames => "control_frames",
            Self::SlowMessage => "body_timeout",
            Self::Exhausted => "memory",
        }
    }

    /// The frame that closes the connection at the peer.
    pub fn close_frame(self) -> CloseFrame {
        let code = if self == Self::Exhausted { CloseCode::Again } else { CloseCode::Policy };
        CloseFrame { code, reason: Utf8Bytes::from(self.to_string()) }
    }
}

impl fmt::Debug for Reclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reclaimed(…)")
    }
}

// === impl ControlFrames ===

impl ControlFrames {
    fn take(&mut self, count: u32, now: Instant) -> Result<(), WebSocketViolation> {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + CONTROL_FRAME_INTERVAL * count;
        if full_at - now > CONTROL_FRAME_INTERVAL * MAX_CONTROL_FRAMES {
            return Err(WebSocketViolation::ControlFrames);
        }
        self.full_at = Some(full_at);
        Ok(())
    }
}

// === impl UnfinishedMessage ===

impl UnfinishedMessage {
    fn new(timeout: Duration) -> Self {
        let pace = Pace::new(timeout);
        Self { pace, waits: None, timer: Box::pin(sleep_until(pace.deadline(Instant::now()))), reclaimed: None }
    }

    fn received(&mut self, bytes: usize, now: Instant) -> Result<(), WebSocketViolation> {
        self.pace = self.pace.received(bytes, self.waits.take().unwrap_or(now), now)?;
        Ok(())
    }

    /// Ready if its memory is needed elsewhere.
    fn poll_reclaimed(&mut self, claim: &Claim, cx: &mut Context<'_>) -> Poll<Exhausted> {
        let reclaimed = match &mut self.reclaimed {
            Some(reclaimed) => reclaimed,
            None if claim.bytes() < STEP => return Poll::Pending,
            none => none.insert(Reclaimed(Box::pin(claim.reclaimed()))),
        };
        reclaimed.0.as_mut().poll(cx)
    }

    /// Ready if the peer sent too little for too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<WebSocketViolation> {
        let since = *self.waits.get_or_insert_with(Instant::now);
        let deadline = self.pace.deadline(since);
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            match self.pace.judge(self.waits.unwrap_or(now), now) {
                Ok(pace) => (self.pace, self.waits) = (pace, Some(now)),
                Err(slow) => return Poll::Ready(slow.into()),
            }
            self.timer.as_mut().reset(self.pace.deadline(now));
        }
    }
}

impl From<TooSlow> for WebSocketViolation {
    fn from(_: TooSlow) -> Self {
        Self::SlowMessage
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::{SinkExt as _, StreamExt as _, poll};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
        time::{advance, interval, timeout},
    };
    use tokio_tungstenite::{
        WebSocketStream,
        tungstenite::{Message, protocol::Role},
    };

    use super::*;
    use crate::support::off_worker::{CurrentPoll, poll_as};

    const TIMEOUT: Duration = Duration::from_secs(30);
    /// A ping without content and with a mask of zeros.
    const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
    /// The first fragment of a text, with one character.
    const FRAGMENT: [u8; 7] = [0x01, 0x81, 0, 0, 0, 0, b'a'];

    /// A server's end whose buffers hold `size` bytes in each direction, and the peer's bytes.
    async fn server(size: usize) -> (WebSocketStream<LimitedStream<DuplexStream>>, DuplexStream) {
        server_for(1000, size).await
    }

    /// The same for messages of at most this many bytes.
    async fn server_for(most: usize, size: usize) -> (WebSocketStream<LimitedStream<DuplexStream>>, DuplexStream) {
        let (own, peer) = duplex(size);
        let stream = LimitedStream::upgraded(own, TIMEOUT, Account::unbounded());
        (WebSocketStream::from_raw_socket(stream, Role::Server, Some(config(most))).await, peer)
    }

    fn violation(next: Option<tungstenite::Result<Message>>) -> Option<WebSocketViolation> {
        next.and_then(Result::err).as_ref().and_then(WebSocketViolation::of)
    }

    #[tokio::test]
    async fn nothing_is_read_while_the_answer_to_a_ping_cannot_be_written() {
        let (mut socket, mut peer) = server(64).await;
        // the buffer toward the peer is full
        let mut sending = Box::pin(socket.send(Message::text("x".repeat(100))));
        assert!(poll!(&mut sending).is_pending());
        drop(sending);
        peer.write_all(&PING).await.unwrap();
        assert!(socket.next().await.unwrap().unwrap().is_ping());
        for _ in 0..10 {
            peer.write_all(&PING).await.unwrap();
            assert!(poll!(socket.next()).is_pending());
        }
        // one that reads is served again
        let (mut pings, mut buffer) = (0, [0; 1000]);
        while pings < 10 {
            if let Poll::Ready(Some(Ok(frame))) = poll!(socket.next()) {
                assert!(frame.is_ping());
                pings += 1;
            }
            let mut read = Box::pin(peer.read(&mut buffer));
            let _ = poll!(&mut read);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_have_a_rate() {
        let (mut socket, mut peer) = server(100_000).await;
        peer.write_all(&PING.repeat(100)).await.unwrap();
        for _ in 0..100 {
            assert!(socket.next().await.unwrap().unwrap().is_ping());
        }
        advance(Duration::from_secs(1)).await;
        peer.write_all(&PING.repeat(10)).await.unwrap();
        for _ in 0..10 {
            assert!(socket.next().await.unwrap().unwrap().is_ping());
        }
        peer.write_all(&PING).await.unwrap();
        assert_eq!(violation(socket.next().await), Some(WebSocketViolation::ControlFrames));
        let closed = WebSocketViolation::ControlFrames.close_frame();
        socket.send(Message::Close(Some(closed.clone()))).await.unwrap();
        let client = WebSocketStream::from_raw_socket(peer, Role::Client, None).await;
        let closing = client.skip_while(|frame| std::future::ready(!frame.as_ref().unwrap().is_close()));
        assert_eq!(Box::pin(closing).next().await.unwrap().unwrap(), Message::Close(Some(closed)));
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_do_not_keep_an_unfinished_message() {
        let (mut socket, mut peer) = server(1000).await;
        peer.write_all(&FRAGMENT).await.unwrap();
        let start = Instant::now();
        let mut pongs = interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(frame)) => assert!(frame.is_pong()),
                    failed => break assert_eq!(violation(failed), Some(WebSocketViolation::SlowMessage)),
                },
                _ = pongs.tick() => peer.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await.unwrap(),
            }
        }
        assert_eq!(start.elapsed().as_secs(), TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_of_a_frame_has_the_same_deadline() {
        let (mut socket, mut peer) = server(1000).await;
        peer.write_all(&PING[..1]).await.unwrap();
        assert_eq!(violation(socket.next().await), Some(WebSocketViolation::SlowMessage));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_comes_in_time_and_a_silent_connection_are_kept() {
        let (mut socket, mut peer) = server(1000).await;
        let rest = [0x80, 0x81, 0, 0, 0, 0, b'b'];
        for _ in 0..3 {
            assert!(timeout(Duration::from_hours(1), socket.next()).await.is_err());
            peer.write_all(&FRAGMENT).await.unwrap();
            assert!(timeout(TIMEOUT / 2, socket.next()).await.is_err());
            peer.write_all(&rest).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("ab"));
        }
    }

    #[tokio::test]
    async fn a_large_message_is_read_off_the_worker_once_there_is_something_to_read() {
        const LENGTH: usize = 3 << 16;
        let (mut socket, mut peer) = server_for(LENGTH, 1 << 20).await;
        let mut poll_as = |current| {
            let mut cx = Context::from_waker(Waker::noop());
            poll_as(current, || socket.poll_next_unpin(&mut cx))
        };
        let mut frame = vec![0x81, 0xff];
        frame.extend((LENGTH as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(vec![b'x'; LENGTH]);
        let (first, rest) = frame.split_at(LENGTH / 2);
        peer.write_all(first).await.unwrap();
        for (current, leaves) in
            [(CurrentPoll::OnWorker, true), (CurrentPoll::Away, false), (CurrentPoll::OnWorker, false)]
        {
            let (polled, left) = poll_as(current);
            assert!(polled.is_pending());
            assert_eq!(left, leaves, "{current:?}");
        }
        peer.write_all(rest).await.unwrap();
        let (polled, left) = poll_as(CurrentPoll::OnWorker);
        assert!(polled.is_pending() && left);
        let (message, _) = poll_as(CurrentPoll::Away);
        assert!(matches!(message, Poll::Ready(Some(Ok(Message::Text(text)))) if text.len() == LENGTH));
    }
}
