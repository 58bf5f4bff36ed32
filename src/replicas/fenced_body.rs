//! The body of a replica's answer, which continues only while its lease runs.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::support::Fence;

type BodyPart = Result<Frame<Bytes>, axum::Error>;

/// A body behind a fence.
pub(super) struct FencedBody {
    body: Body,
    fence: Fence,
    /// Held until the answer has ended.
    _running: Option<TaskTrackerToken>,
    /// A part waiting for the fence, and its wait.
    held: Option<(BodyPart, BoxFuture<'static, ()>)>,
}

// === impl FencedBody ===

impl FencedBody {
    pub(super) fn new(body: Body, fence: Fence, running: Option<TaskTrackerToken>) -> Self {
        Self { body, fence, _running: running, held: None }
    }
}

impl HttpBody for FencedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<BodyPart>> {
        if let Some((_, opened)) = &mut self.held {
            ready!(opened.poll_unpin(cx));
            return Poll::Ready(self.held.take().map(|(frame, _)| frame));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match frame {
            Some(frame) if !self.fence.is_open() => {
                let fence = self.fence.clone();
                self.held = Some((frame, async move { fence.opened().await }.boxed()));
                self.poll_frame(cx)
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.held.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{poll, stream};
    use http_body_util::BodyExt as _;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_that_comes_after_the_end_of_the_lease_waits_for_the_next() {
        let fence = Fence::closed();
        let lease = || Instant::now() + Duration::from_secs(6);
        fence.open_until(lease());
        let parts = stream::iter(["one", "two"].map(Ok::<_, axum::Error>));
        let mut body = FencedBody::new(Body::from_stream(parts), fence.clone(), None);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        advance(Duration::from_secs(6)).await;
        assert!(poll!(body.frame()).is_pending());
        assert!(poll!(body.frame()).is_pending());
        fence.open_until(lease());
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "two");
        assert!(body.frame().await.is_none());
    }
}
