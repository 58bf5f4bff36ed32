//! An HTTP/2 server that refuses requests, written frame by frame (RFC 9113).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const HEADERS: u8 = 1;

const NO_ERROR: u32 = 0;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

/// Refusal of the first requests of all connections; later ones are answered.
#[derive(Debug)]
pub(super) struct Refusals {
    remaining: AtomicUsize,
    by: Refusal,
    /// Number of requests.
    requests: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    /// Resets the stream with this code.
    Reset(u32),
    /// Ends the connection, and excludes this request from the processed ones.
    Drain,
}

// === impl Refusals ===

impl Refusals {
    pub(super) fn new(remaining: usize, by: Refusal) -> Arc<Self> {
        Arc::new(Self { remaining: AtomicUsize::new(remaining), by, requests: AtomicUsize::new(0) })
    }

    /// The number of requests.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Serves one connection.
    pub(super) async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        send(&mut stream, (SETTINGS, 0, 0), &[]).await;
        while let Ok((kind, flags, id)) = frame(&mut stream).await {
            match kind {
                // RFC 9113 6.5.3: each is acknowledged
                SETTINGS if flags & 1 == 0 => send(&mut stream, (SETTINGS, 1, 0), &[]).await,
                HEADERS => {
                    self.requests.fetch_add(1, Ordering::Relaxed);
                    let refused = self.remaining.load(Ordering::Relaxed) > 0;
                    if !refused {
                        // the end of both the head and the stream; 0x88 is `:status: 200` (RFC 7541 A)
                        send(&mut stream, (HEADERS, 0x5, id), &[0x88]).await;
                        continue;
                    }
                    self.remaining.fetch_sub(1, Ordering::Relaxed);
                    match self.by {
                        Refusal::Reset(code) => send(&mut stream, (RST_STREAM, 0, id), &code.to_be_bytes()).await,
                        Refusal::Drain => {
                            let last_stream = 0_u32.to_be_bytes();
                            send(&mut stream, (GOAWAY, 0, 0), &[last_stream, NO_ERROR.to_be_bytes()].concat()).await;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// The type, the flags and the stream of the next frame.
async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap()];
    stream.read_exact(&mut payload).await?;
    Ok((kind, flags, u32::from_be_bytes(id)))
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), (kind, flags, id): (u8, u8, u32), payload: &[u8]) {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&[a, b, c, kind, flags][..], &id.to_be_bytes()].concat();
    stream.write_all(&[&head, payload].concat()).await.unwrap();
    stream.flush().await.unwrap();
}
