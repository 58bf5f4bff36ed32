//! The body of a request that is carried to another replica, and comes back if that one does not take it. Knows nothing of
//! what it says.

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

/// A body on its way. What was sent of it is kept: the guard bounds it.
pub(super) struct LentBody(Arc<Mutex<Lent>>);

/// The claim to the body.
pub(super) struct BodyOwner(Arc<Mutex<Lent>>);

struct Lent {
    sent: Vec<Bytes>,
    rest: Body,
}

/// Lends a body.
pub(super) fn lend(body: Body) -> (LentBody, BodyOwner) {
    let lent = Arc::new(Mutex::new(Lent { sent: Vec::new(), rest: body }));
    (LentBody(Arc::clone(&lent)), BodyOwner(lent))
}

// === impl BodyOwner ===

impl BodyOwner {
    /// The whole body. Whoever had it gets nothing more of it.
    pub(super) fn take_back(self) -> Body {
        let mut lent = self.0.lock();
        let (sent, rest) = (std::mem::take(&mut lent.sent), std::mem::take(&mut lent.rest));
        if sent.is_empty() {
            return rest;
        }
        Body::from_stream(stream::iter(sent.into_iter().map(Ok)).chain(rest.into_data_stream()))
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
            lent.sent.push(data);
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

    #[tokio::test]
    async fn a_body_comes_back_whole_whatever_was_sent() {
        let parts = || Body::from_stream(stream::iter(["ab", "cd", "ef"].map(Ok::<_, axum::Error>)));
        for sent in 0..=3 {
            let (mut lent, owner) = lend(parts());
            for _ in 0..sent {
                lent.frame().await.unwrap().unwrap();
            }
            let back = owner.take_back().collect().await.unwrap().to_bytes();
            assert_eq!(back, "abcdef", "{sent} parts were sent");
            assert!(lent.frame().await.is_none(), "and nothing more is sent");
        }
    }
}
