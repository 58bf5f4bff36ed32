//! HTTP bodies of bounded length.

use std::io;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use memmap2::MmapMut;

use crate::support::{
    Account,
    memory::{Claim, STEP},
    off_worker::off_worker,
};

/// Part of a large body's buffer that is touched ahead of its bytes, in bytes.
const TOUCHED_AHEAD: usize = 256 * 1024;
/// From this length in bytes on, the rest of a body is trusted to come. Address space is reserved for it, at most
/// sixteen times the paid amount up to the maximum of a body; memory only when touched.
const BELIEVED: usize = 1024 * 1024;

/// A body of several chunks.
#[derive(Debug, Default)]
struct Joined {
    buffer: BodyBuffer,
    /// The part of the buffer that has been written to once, which is paid for: the system provides memory page by page
    /// at the first write, which takes longer than writing.
    touched: usize,
}

/// The buffer of such a body.
#[derive(Debug)]
enum BodyBuffer {
    Small(BytesMut),
    /// A memory map of its own, which the system gets back as soon as it is dropped: an allocator keeps large pieces
    /// for a while.
    Large {
        map: MmapMut,
        length: usize,
    },
}

/// The room of a buffer, in bytes.
#[derive(Debug, Clone, Copy)]
struct BufferRoom {
    capacity: usize,
    /// The part written to.
    touched: usize,
}

/// A body that was not read to its end.
#[derive(Debug)]
pub enum BodyError<E> {
    /// It is longer than allowed.
    TooLarge,
    Broken(E),
    /// There is no memory for it.
    Exhausted,
}

/// Reads a body of at most `max` bytes. It is charged as it arrives; if it is larger than a [`STEP`], the claim is
/// returned with it. The buffer of a large body grows off the worker if the driver can leave the worker.
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
        let arrived = text.len() + joined.buffer.as_slice().len();
        if arrived + data.len() > max {
            return Err(BodyError::TooLarge);
        }
        // most bodies are a single chunk, which is not copied
        let room = (arrived > 0).then(|| {
            let rest = match body.size_hint() {
                hint if hint.upper().is_none() => arrived,
                hint => usize::try_from(hint.lower()).unwrap_or(max),
            };
            joined.room_for(arrived, data.len(), rest.min(max - arrived - data.len()))
        });
        let held = room.map_or(data.len(), |room| room.touched);
        if held >= STEP {
            if let Some(claim) = claim.take() {
                claimed = Some(claim());
            }
            if let Some(claim) = claimed.as_mut().filter(|claim| claim.bytes() < held) {
                claim.grow_soon(held - claim.bytes()).await.map_err(|_| BodyError::Exhausted)?;
            }
        }
        if let Some(room) = room {
            joined.make(room).await.map_err(|_| BodyError::Exhausted)?;
            joined.buffer.push(&std::mem::take(&mut text));
            joined.buffer.push(&data);
        } else {
            text = data;
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok((if joined.buffer.as_slice().is_empty() { text } else { joined.buffer.freeze() }, claimed))
}

// === impl Joined ===

impl Joined {
    /// The capacity for `more` bytes after the `arrived` ones, with `rest` still to come. A body's stated length is
    /// trusted only in proportion to the bytes that arrived, and fully once much has been paid for: then it is never
    /// copied.
    fn room_for(&self, arrived: usize, more: usize, rest: usize) -> BufferRoom {
        let needed = arrived + more;
        let capacity = match self.buffer.capacity() {
            enough if needed <= enough => enough,
            _ if needed >= BELIEVED => needed + rest,
            _ => needed + rest.min(arrived),
        };
        let touched = if needed <= self.touched { self.touched } else { (needed + TOUCHED_AHEAD).min(capacity) };
        BufferRoom { capacity, touched }
    }

    /// Makes this capacity, off the worker if it is large.
    ///
    /// # Errors
    ///
    /// If the system has no address space.
    async fn make(&mut self, room: BufferRoom) -> io::Result<()> {
        if room.touched <= self.touched {
            return Ok(());
        }
        off_worker(room.touched).await;
        if room.capacity > self.buffer.capacity() {
            self.buffer = self.buffer.grown(room.capacity)?;
        }
        self.buffer.touch(room.touched);
        self.touched = room.touched;
        Ok(())
    }
}

// === impl BodyBuffer ===

impl BodyBuffer {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Small(text) => text,
            Self::Large { map, length } => map.get(..*length).unwrap_or_default(),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Small(text) => text.capacity(),
            Self::Large { map, .. } => map.len(),
        }
    }

    /// The same with this capacity.
    fn grown(&self, capacity: usize) -> io::Result<Self> {
        let mut larger = if capacity < BELIEVED {
            Self::Small(BytesMut::with_capacity(capacity))
        } else {
            Self::Large { map: MmapMut::map_anon(capacity)?, length: 0 }
        };
        larger.push(self.as_slice());
        Ok(larger)
    }

    /// Writes to the free part, up to this length.
    fn touch(&mut self, until: usize) {
        match self {
            Self::Small(text) => {
                let length = text.len();
                text.resize(until, 0);
                text.truncate(length);
            }
            Self::Large { map, length } => map.get_mut(*length..until).unwrap_or_default().fill(0),
        }
    }

    /// Adds bytes that fit the capacity.
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Small(text) => text.extend_from_slice(bytes),
            Self::Large { map, length } => {
                let end = *length + bytes.len();
                map.get_mut(*length..end).expect("room was made").copy_from_slice(bytes);
                *length = end;
            }
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Self::Small(text) => text.freeze(),
            Self::Large { map, length } => Bytes::from_owner(map).slice(..length),
        }
    }
}

impl Default for BodyBuffer {
    fn default() -> Self {
        Self::Small(BytesMut::new())
    }
}

/// Reads a body of at most `max` bytes, too few to be charged.
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

    #[tokio::test]
    async fn a_large_body_is_copied_while_it_is_small_and_charged_for_what_has_come() {
        let budget = MemoryBudget::new(64 << 20);
        let claim = || Claim::nothing(budget.user("ann"));
        let chunk = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 128 * 1024])));
        let mut joined = Joined::default();
        let mut buffers = std::collections::HashSet::new();
        for number in 0..64 {
            let room = joined.room_for(number << 17, 1 << 17, (64 - number - 1) << 17);
            joined.make(room).await.unwrap();
            joined.buffer.push(&vec![b'x'; 1 << 17]);
            assert!(joined.touched <= joined.buffer.as_slice().len() + TOUCHED_AHEAD);
            buffers.insert(joined.buffer.as_slice().as_ptr());
        }
        assert!(buffers.len() <= 5, "{}", buffers.len());
        // without a length it grows by doubling
        let body = StreamBody::new(stream::iter((0..64).map(|_| chunk()).collect::<Vec<_>>()));
        let (text, claimed) = read(body, 16 << 20, claim).await.unwrap();
        assert_eq!(text.len(), 8 << 20);
        assert!(claimed.is_some_and(|claim| claim.bytes() <= (8 << 20) + TOUCHED_AHEAD));
    }
}
