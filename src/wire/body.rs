//! HTTP bodies of bounded length. Knows nothing of their content.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;

use crate::support::{
    Account,
    memory::{Claim, STEP},
    off_worker::off_worker,
};

/// The part of a large body that is touched before its bytes come, in bytes.
const TOUCHED_AHEAD: usize = 512 * 1024;

/// A body of several chunks.
#[derive(Debug, Default)]
struct Joined {
    text: BytesMut,
    /// The part of the buffer that has been written to once: the system gives memory page by page at the first write, which
    /// takes longer than writing.
    touched: usize,
}

/// A body that was not read to its end.
#[derive(Debug)]
pub enum BodyError<E> {
    /// It is longer than allowed.
    TooLarge,
    /// It broke off.
    Broken(E),
    /// There is no memory for it.
    Exhausted,
}

/// Reads a body of at most `max` bytes. It is charged as it arrives, to the claim that is returned with it if it is larger
/// than a [`STEP`]. The buffer of a large one grows off the worker if somebody drives this who can leave it.
///
/// # Errors
///
/// If it is longer, breaks off, or has to be given up.
pub async fn read<B>(
    mut body: B,
    max: usize,
    claim: impl FnOnce() -> Claim,
) -> Result<(Bytes, Option<Claim>), BodyError<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut text, mut joined) = (Bytes::new(), Joined::default());
    let (mut claim, mut claimed) = (Some(claim), None::<Claim>);
    loop {
        let frame = match &claimed {
            None => body.frame().await,
            Some(claim) => tokio::select! {
                frame = body.frame() => frame,
                _ = claim.reclaimed() => return Err(BodyError::Exhausted),
            },
        };
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
        let arrived = text.len() + joined.text.len();
        if arrived + data.len() > max {
            return Err(BodyError::TooLarge);
        }
        // what the body says of its length is believed as far as it has come: a reader that stops has paid for what it holds
        let rest = usize::try_from(body.size_hint().lower()).unwrap_or(max).min(arrived);
        let held = match (arrived, joined.text.capacity()) {
            // most bodies are a single chunk, which is not copied
            (0, _) => data.len(),
            (_, capacity) if arrived + data.len() <= capacity => capacity,
            _ => arrived + data.len() + rest,
        };
        if held >= STEP {
            if let Some(claim) = claim.take() {
                claimed = Some(claim());
            }
            if let Some(claim) = claimed.as_mut().filter(|claim| claim.bytes() < held) {
                claim.grow_soon(held - claim.bytes()).await.map_err(|_| BodyError::Exhausted)?;
            }
        }
        if arrived == 0 {
            text = data;
        } else {
            joined.make_room(text.len() + data.len(), held).await;
            joined.text.extend_from_slice(&std::mem::take(&mut text));
            joined.text.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok((if joined.text.is_empty() { text } else { joined.text.freeze() }, claimed))
}

// === impl Joined ===

impl Joined {
    /// Makes room for `more` bytes: grows to exactly `held`, which is paid for, if they are too many, and touches what they
    /// are written to. Off the worker if that is much.
    async fn make_room(&mut self, more: usize, held: usize) {
        let needed = self.text.len() + more;
        if needed <= self.touched {
            return;
        }
        off_worker(held).await;
        if held > self.text.capacity() {
            let mut larger = BytesMut::with_capacity(held);
            larger.extend_from_slice(&self.text);
            self.text = larger;
        }
        let length = self.text.len();
        self.touched = (needed + TOUCHED_AHEAD).min(self.text.capacity());
        self.text.resize(self.touched, 0);
        self.text.truncate(length);
    }
}

/// Reads a body of at most `max` bytes, which are so few that nobody pays for them.
///
/// # Errors
///
/// If it is longer, or breaks off.
pub async fn read_small<B>(body: B, max: usize) -> Result<Bytes, BodyError<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    read(body, max, || Claim::nothing(Account::unbounded())).await.map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::{Frame, SizeHint};

    use super::*;
    use crate::support::{
        MemoryBudget,
        off_worker::{CurrentPoll, poll_as},
    };

    fn chunks<E>(chunks: Vec<Result<&'static str, E>>) -> impl Body<Data = Bytes, Error = E> + Unpin {
        let frames = chunks.into_iter().map(|chunk| chunk.map(|text| Frame::data(Bytes::from_static(text.as_bytes()))));
        StreamBody::new(stream::iter(frames.collect::<Vec<_>>()))
    }

    /// A body that says it has a mebibyte, and stops after 20 KiB.
    struct Boasting(usize);

    impl Body for Boasting {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0 += 1;
            Poll::Ready((self.0 <= 20).then(|| Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact((1 << 20) - 1024 * self.0 as u64)
        }
    }

    #[tokio::test]
    async fn a_body_gets_memory_as_it_arrives_and_not_as_it_says() {
        let read = read_small(Boasting(0), 1 << 24).await.unwrap();
        assert_eq!(read.len(), 20 * 1024);
        assert!(read.try_into_mut().unwrap().capacity() < 128 * 1024);
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        let three = || chunks::<Infallible>(vec![Ok("ab"), Ok(""), Ok("cd"), Ok("e")]);
        assert_eq!(read_small(three(), 5).await.unwrap(), "abcde");
        assert!(matches!(read_small(three(), 4).await, Err(BodyError::TooLarge)));
        assert_eq!(read_small(Full::new(Bytes::from_static(b"abc")), 3).await.unwrap(), "abc");
        assert!(matches!(read_small(Full::new(Bytes::from_static(b"abc")), 2).await, Err(BodyError::TooLarge)));
        assert_eq!(read_small(chunks::<Infallible>(Vec::new()), 0).await.unwrap(), "");
        let broken = chunks(vec![Ok("ab"), Err(io::Error::other("cut"))]);
        assert!(matches!(read_small(broken, 9).await, Err(BodyError::Broken(_))));
    }

    #[tokio::test]
    async fn a_body_is_charged_as_it_arrives_and_refused_without_memory() {
        let budget = MemoryBudget::new(64 * 1024);
        let claim = || Claim::nothing(budget.user("ann"));
        let (text, claimed) = read(Boasting(0), 1 << 24, claim).await.unwrap();
        assert_eq!((text.len(), budget.in_use().held), (20 * 1024, 28 * 1024));
        assert!(matches!(
            read(Full::new(vec![b'x'; 60 * 1024].into()), 1 << 24, claim).await,
            Err(BodyError::Exhausted)
        ));
        let small = read(Full::new(Bytes::from_static(b"abc")), 3, || unreachable!("it is free")).await;
        assert!(small.unwrap().1.is_none());
        drop(claimed);
        assert_eq!(budget.in_use().held, 0);
    }

    #[tokio::test]
    async fn the_buffer_of_a_large_body_grows_off_the_worker() {
        let chunk = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 48 * 1024])));
        let body = StreamBody::new(stream::iter([chunk(), chunk(), chunk()]));
        let mut reading = Box::pin(read_small(body, 1 << 20));
        let mut cx = Context::from_waker(Waker::noop());
        let (polled, leaves) = poll_as(CurrentPoll::OnWorker, || reading.as_mut().poll(&mut cx));
        assert!(polled.is_pending() && leaves);
        let (polled, _) = poll_as(CurrentPoll::Away, || reading.as_mut().poll(&mut cx));
        assert!(matches!(polled, Poll::Ready(Ok(text)) if text.len() == 144 * 1024));
    }
}
