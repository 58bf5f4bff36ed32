//! The answer to a connection that is not admitted. It is written without hyper, because no request is read.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::task::TaskTracker;

/// Maximum number of connections that get such an answer at once. Any more are closed without one. The reserve includes
/// their descriptors, see [`super::descriptors`].
pub(super) const MAX_REFUSALS: usize = 32;

/// Time for a refused client to read the response.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Reason not to admit a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionRefusal {
    /// Running requests take every place: the gateway is overloaded (RFC 9110 15.6.4).
    Full,
    /// This address has its maximum of connections, and requests run on all of them: the client is the cause (RFC 6585
    /// 4).
    Address,
}

/// The refusals that are being sent.
#[derive(Debug)]
pub(super) struct PendingRefusals {
    permits: Arc<Semaphore>,
    tracker: TaskTracker,
}

// === impl AdmissionRefusal ===

impl AdmissionRefusal {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "address",
        }
    }

    const fn answer(self) -> &'static [u8] {
        match self {
            Self::Full => {
                b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            }
            Self::Address => {
                b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            }
        }
    }
}

// === impl PendingRefusals ===

impl PendingRefusals {
    pub(super) fn new(tracker: TaskTracker) -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_REFUSALS)), tracker }
    }

    /// Answers in the background and closes the connection.
    pub(super) fn send<T>(&self, stream: T, refusal: AdmissionRefusal)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        metrics::counter!("lockkeeper_connections_refused_total", "reason" => refusal.label()).increment(1);
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return };
        self.tracker.spawn(async move {
            let _ = timeout(TIMEOUT, say(stream, refusal)).await;
            drop(permit);
        });
    }
}

/// Writes the answer, then reads until the client closes. Closing while bytes are unread would discard the answer.
async fn say<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, refusal: AdmissionRefusal) -> std::io::Result<()> {
    stream.write_all(refusal.answer()).await?;
    stream.shutdown().await?;
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}
