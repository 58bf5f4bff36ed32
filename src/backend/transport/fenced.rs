//! A connection that sends only while the replica's lease is valid: after that, another replica may have taken over.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};

use super::interface::{Exchange, RequestTerms, ServerLocation, Transport, TransportError, UnansweredCalls};
use crate::{
    mcp::{Message, Revision},
    model::status::OutputLine,
    support::Fence,
};

struct FencedTransport {
    inner: Arc<dyn Transport>,
    fence: Fence,
}

/// Puts `transport` behind `fence`, unless the fence never closes.
pub(super) fn fenced(inner: Arc<dyn Transport>, fence: &Fence) -> Arc<dyn Transport> {
    if fence.never_closes() {
        return inner;
    }
    Arc::new(FencedTransport { inner, fence: fence.clone() })
}

impl Transport for FencedTransport {
    fn request(&self, request: Message, terms: RequestTerms) -> Exchange {
        if self.fence.is_open() {
            return self.inner.request(request, terms);
        }
        let (inner, fence) = (Arc::clone(&self.inner), self.fence.clone());
        let later = async move {
            fence.opened().await;
            match inner.request(request, terms) {
                Exchange::Channel => stream::pending().boxed(),
                Exchange::Own(messages) => messages,
            }
        };
        Exchange::Own(later.flatten_stream().boxed())
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        if self.fence.is_open() {
            return self.inner.send(message);
        }
        let (inner, fence) = (Arc::clone(&self.inner), self.fence.clone());
        async move {
            fence.opened().await;
            inner.send(message).await
        }
        .boxed()
    }

    fn may_send(&self) -> BoxFuture<'static, ()> {
        let fence = self.fence.clone();
        async move { fence.opened().await }.boxed()
    }

    fn negotiated(&self, revision: Revision) {
        self.inner.negotiated(revision);
    }

    fn opened(&self) {
        self.inner.opened();
    }

    fn listening(&self) -> Option<BoxFuture<'static, ()>> {
        self.inner.listening()
    }

    fn may_be_http_sse(&self) -> bool {
        self.inner.may_be_http_sse()
    }

    fn location(&self) -> ServerLocation {
        self.inner.location()
    }

    fn unanswered(&self) -> UnansweredCalls {
        self.inner.unanswered()
    }

    // closed even without a lease, when another replica may have its own connection
    fn close(&self) -> BoxFuture<'static, ()> {
        self.inner.close()
    }

    fn passed_over(&self, text: &Bytes) {
        self.inner.passed_over(text);
    }

    fn output(&self) -> Vec<OutputLine> {
        self.inner.output()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::poll;
    use parking_lot::Mutex;
    use tokio::time::{Instant, advance};

    use super::*;
    use crate::mcp::{IndexedJson, Method};

    /// A channel that keeps messages that were sent.
    #[derive(Default)]
    struct Kept(Mutex<Vec<Message>>);

    impl Transport for Kept {
        fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
            self.0.lock().push(message);
            std::future::ready(Ok(())).boxed()
        }

        fn close(&self) -> BoxFuture<'static, ()> {
            std::future::ready(()).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_after_the_end_of_the_lease_until_it_is_renewed() {
        let (fence, kept) = (Fence::closed(), Arc::new(Kept::default()));
        let lease = || Instant::now() + Duration::from_secs(6);
        fence.open_until(lease());
        let transport = fenced(Arc::clone(&kept) as _, &fence);
        let ping = || Message::Notification { method: Method::Ping, params: IndexedJson::default() };
        transport.send(ping()).await.unwrap();
        advance(Duration::from_secs(6)).await;
        let mut late = transport.send(ping());
        assert!(poll!(&mut late).is_pending());
        assert_eq!(kept.0.lock().len(), 1);
        fence.open_until(lease());
        late.await.unwrap();
        assert_eq!(kept.0.lock().len(), 2);
    }
}
