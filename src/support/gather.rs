//! Joins the pieces of a stream that arrive together, so that they are written together.

use std::sync::Arc;

use async_stream::stream;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use tokio::task::yield_now;

use super::own_waker::Woken;

/// From this size in bytes on, pieces are not joined: a copy would cost as much as the write it saves.
const ENOUGH: usize = 16 * 1024;

/// The same bytes in fewer pieces: joins the ready ones with those that arrive while other runnable tasks get their
/// turn.
pub fn gather(pieces: impl Stream<Item = Bytes> + Send) -> impl Stream<Item = Bytes> + Send {
    stream! {
        let waker = Arc::default();
        let pieces = pieces.fuse();
        tokio::pin!(pieces);
        while let Some(first) = pieces.next().await {
            if first.len() < ENOUGH {
                // the task is polled for other reasons too, which do not end a turn
                tokio::pin! { let turn = yield_now(); }
                Woken::new(turn, &waker).await;
            }
            let mut joined = BytesMut::new();
            let mut length = first.len();
            while length < ENOUGH && let Some(Some(next)) = pieces.next().now_or_never() {
                if joined.is_empty() {
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&next);
                length += next.len();
            }
            yield if joined.is_empty() { first } else { joined.freeze() };
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{pin_mut, stream};
    use tokio::{sync::mpsc, task::JoinSet};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    #[tokio::test]
    async fn pieces_that_come_together_are_joined_in_their_order() {
        let (sender, pieces) = mpsc::unbounded_channel();
        let joined = gather(UnboundedReceiverStream::new(pieces));
        pin_mut!(joined);
        sender.send(Bytes::from_static(b"a")).unwrap();
        // comes while the first is held back
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            sender.send(Bytes::from_static(b"b")).unwrap();
            sender.send(Bytes::from_static(b"c")).unwrap();
        });
        assert_eq!(joined.next().await.unwrap(), "abc");
        assert_eq!(joined.next().await, None);
    }

    #[tokio::test]
    async fn a_piece_that_comes_alone_goes_alone() {
        let (sender, pieces) = mpsc::unbounded_channel();
        let joined = gather(UnboundedReceiverStream::new(pieces));
        pin_mut!(joined);
        for piece in ["a", "b"] {
            sender.send(Bytes::from_static(piece.as_bytes())).unwrap();
            assert_eq!(joined.next().await.unwrap(), piece);
        }
    }

    #[tokio::test]
    async fn large_pieces_are_not_copied() {
        let large = Bytes::from(vec![b'x'; ENOUGH]);
        let joined = gather(stream::iter([large.clone(), Bytes::from_static(b"y"), large.clone(), large.clone()]));
        let lengths: Vec<usize> = joined.map(|piece| piece.len()).collect().await;
        assert_eq!(lengths, [ENOUGH, 1 + ENOUGH, ENOUGH]);
    }
}
