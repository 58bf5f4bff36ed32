//! The body of a request carried to another replica. It comes back if that replica does not accept it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

use crate::support::{Account, memory::Charge};

/// A body in transit. A copy of the sent part is kept at the expense of its client address, as long as there is memory.
pub(super) struct LentBody(Arc<Mutex<Lent>>);

/// The claim to the body.
pub(super) struct BodyOwner(Arc<Mutex<Lent>>);

struct Lent {
    /// `None` if there was no memory for it.
    sent: Option<(Vec<Bytes>, Charge)>,
    rest: Body,
}

/// Lends a body. This account pays for the copy until the answer is there.
pub(super) fn lend(body: Body, account: Account) -> (LentBody, BodyOwner) {
    let sent = Some((Vec::new(), Charge::nothing(account)));
    let lent = Arc::new(Mutex::new(Lent { sent, rest: body }));
    (LentBody(Arc::clone(&lent)), BodyOwner(lent))
}

// === impl BodyOwner ===

impl BodyOwner {
    /// The whole body, unless there was no memory to keep the sent part. The borrower gets no more of it.
    pub(super) fn take_back(self) -> Option<Body> {
        let mut lent = self.0.lock();
        let (sent, rest) = (lent.sent.take(), std::mem::take(&mut lent.rest));
        let (sent, _) = sent?;
        if sent.is_empty() {
            return Some(rest);
        }
        Some(Body::from_stream(stream::iter(sent.into_iter().map(Ok)).chain(rest.into_data_stream())))
    }
}

// === impl LentBody ===

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut lent = self.0.lock();
        let frame = ready!(Pin::new(&mut lent.rest).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            let data = data.clone();
            let has_room = lent.sent.as_mut().is_some_and(|(_, charge)| charge.grow(data.len()).is_ok());
            match &mut lent.sent {
                Some((sent, _)) if has_room => sent.push(data),
                sent => *sent = None,
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().rest.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::support::MemoryBudget;

    #[tokio::test]
    async fn a_body_comes_back_whole_whatever_was_sent() {
        let parts = || Body::from_stream(stream::iter(["ab", "cd", "ef"].map(Ok::<_, axum::Error>)));
        for sent in 0..=3 {
            let (mut lent, owner) = lend(parts(), Account::unbounded());
            for _ in 0..sent {
                lent.frame().await.unwrap().unwrap();
            }
            let back = owner.take_back().unwrap().collect().await.unwrap().to_bytes();
            assert_eq!(back, "abcdef", "{sent} parts were sent");
            assert!(lent.frame().await.is_none(), "and nothing more is sent");
        }
    }

    #[tokio::test]
    async fn without_memory_for_a_copy_a_body_is_sent_all_the_same_and_no_other_address_pays() {
        let budget = MemoryBudget::new(8 << 20);
        let [hostile, ann] = [1, 2].map(|last| budget.address([192, 0, 2, last].into()));
        let mib = || Ok::<_, axum::Error>(vec![b'x'; 1 << 20]);
        let body = |count: usize| Body::from_stream(stream::iter((0..count).map(move |_| mib())));
        let (mut large, owner) = lend(body(9), hostile);
        let (mut small, hers) = lend(body(1), ann);
        let mut sent = 0;
        while let Some(frame) = large.frame().await {
            sent += frame.unwrap().into_data().unwrap().len();
            if sent == 7 << 20 {
                small.frame().await.unwrap().unwrap();
            }
        }
        assert_eq!(sent, 9 << 20);
        assert!(owner.take_back().is_none(), "there was no memory for so much");
        assert_eq!(hers.take_back().unwrap().collect().await.unwrap().to_bytes().len(), 1 << 20);
        drop((large, small));
        assert_eq!(budget.in_use().held, 0);
    }
}
