//! Bytes on their way to a client. They are charged to its user until the last byte is taken, and dropped if the user
//! holds too much memory.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::support::{
    Account,
    memory::{Exhausted, Relief, Revocable},
};

/// Maximum number of bytes taken at once, because they are no longer charged once a connection has taken them.
const CHUNK: usize = 64 * 1024;

/// Bytes that wait for a connection to take them. Their length as a body is known.
#[derive(Debug)]
pub(super) struct HeldBytes {
    parts: Revocable<VecDeque<Bytes>>,
    left: usize,
}

// === impl HeldBytes ===

impl HeldBytes {
    /// Holds these parts, one after another. If memory is short, a user within a fair share waits a moment until others
    /// have given some back.
    ///
    /// # Errors
    ///
    /// If there is no memory for them.
    pub(super) async fn new(parts: impl IntoIterator<Item = Bytes>, account: &Account) -> Result<Self, Exhausted> {
        let parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let left = parts.iter().map(Bytes::len).sum();
        Ok(Self { parts: Revocable::soon(parts, left, account, Relief::Streams).await?, left })
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the rest was dropped to free memory.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Exhausted> {
        if self.left == 0 {
            return Ok(None);
        }
        let chunk = self.parts.with(|parts| {
            let part = parts.front_mut()?;
            let chunk = part.split_to(part.len().min(CHUNK));
            if part.is_empty() {
                parts.pop_front();
            }
            Some(chunk)
        });
        let chunk = chunk.flatten().ok_or(Exhausted)?;
        self.left -= chunk.len();
        Ok(Some(chunk))
    }
}

impl Body for HeldBytes {
    type Data = Bytes;
    type Error = Exhausted;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Exhausted>>> {
        Poll::Ready(self.next().map(|chunk| chunk.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.left).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::support::{MemoryBudget, memory::Claim};

    #[tokio::test]
    async fn the_parts_come_in_order_and_say_their_length() {
        let mut body = HeldBytes::new(["a", "", "bc"].map(Bytes::from), &Account::unbounded()).await.unwrap();
        assert_eq!(body.size_hint().exact(), Some(3));
        body.frame().await.unwrap().unwrap();
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "bc");
    }

    #[tokio::test(start_paused = true)]
    async fn one_users_unread_answers_are_given_up_and_no_others() {
        let mib = |count: usize| [Bytes::from(vec![b'x'; count << 20])];
        let budget = MemoryBudget::new(8 << 20);
        let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
        let mut of_ann = HeldBytes::new(mib(1), &ann).await.unwrap();
        let mut unread = Vec::new();
        for _ in 0..6 {
            unread.push(HeldBytes::new(mib(1), &hostile).await.unwrap());
        }
        assert!(HeldBytes::new(mib(9), &ann).await.is_err(), "there is no room for this, whoever gives way");
        let mut further = HeldBytes::new(mib(2), &ann).await.unwrap();
        assert!(unread.iter_mut().any(|body| body.next() == Err(Exhausted)), "the connection breaks off");
        for body in [&mut of_ann, &mut further] {
            while body.next().unwrap().is_some() {}
        }
        assert!(unread.iter_mut().any(|body| body.next().is_ok()), "no more is given up than is needed");
        drop((unread, of_ann, further));
        assert_eq!(budget.in_use().held, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_within_a_share_waits_for_a_body_of_another_that_gives_way() {
        let budget = MemoryBudget::new(8 << 20);
        let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
        let mut body = Claim::of(hostile, 7 << 20).unwrap();
        let answer = HeldBytes::new([Bytes::from(vec![b'x'; 2 << 20])], &ann);
        let (held, ()) = tokio::join!(answer, async {
            body.reclaimed().await;
            body.clear();
        });
        assert_eq!(held.unwrap().left, 2 << 20);
    }
}
