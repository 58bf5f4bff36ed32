//! The HTTP client of orders: the client for URLs chosen by the operator, with its authorities and proxies. Notes the
//! authority's further statements, next to its answers.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use url::Url;

use crate::{
    fetch::{BodyBound, FetchError, FetchRequest, OpenBounds, OpenClient},
    support::{Clock, Timestamp},
};

/// Bounds of a request.
const BOUNDS: OpenBounds = OpenBounds { deadline: Duration::from_secs(30), body: BodyBound::Whole(1 << 20) };
/// A larger difference to the authority's clock is reported.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(1);

/// The client. Cheap to clone.
#[derive(Clone)]
pub(super) struct AcmeHttp {
    client: OpenClient,
    clock: Arc<dyn Clock>,
    /// The pause requested by the last refusal.
    pause: Arc<Mutex<Option<Duration>>>,
    clock_compared: Arc<AtomicBool>,
}

impl AcmeHttp {
    pub(super) fn new(client: OpenClient, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, pause: Arc::default(), clock_compared: Arc::default() }
    }

    /// The pause requested by the last refusal.
    pub(super) fn take_pause(&self) -> Option<Duration> {
        self.pause.lock().take()
    }

    async fn send(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| Error::Other(Box::new(error)))?;
        let Ok(body) = body.collect().await;
        let mut headers = head.headers;
        headers.insert(
            header::USER_AGENT,
            header::HeaderValue::from_static(concat!("lockkeeper/", env!("CARGO_PKG_VERSION"))),
        );
        let request = FetchRequest::new(head.method, url, headers, body.to_bytes());
        let answer = self.client.send(request, BOUNDS).await.map_err(|error| Error::Other(Box::new(Silent(error))))?;
        self.compare_clocks(answer.headers());
        if matches!(answer.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            *self.pause.lock() = self.asked_pause(answer.headers());
        }
        Ok(BytesResponse::from(answer.map(Full::new)))
    }

    /// Compares the clock of this machine with the authority's, once.
    fn compare_clocks(&self, headers: &HeaderMap) {
        let Some(theirs) = date(headers, header::DATE) else { return };
        if self.clock_compared.swap(true, Ordering::Relaxed) {
            return;
        }
        let ours = self.clock.now();
        let difference = theirs.since(ours).max(ours.since(theirs));
        if difference > CLOCK_TOLERANCE {
            let direction = if ours < theirs { "behind" } else { "ahead of" };
            tracing::warn!(
                "the clock of this machine is {} s {direction} the authority's: certificates and tokens will be refused; set it",
                difference.as_secs()
            );
        }
    }

    /// The pause in seconds, or until a date (RFC 9110 10.2.3).
    fn asked_pause(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        let seconds = text.trim().parse().map(Duration::from_secs);
        seconds.ok().or_else(|| Some(date(headers, header::RETRY_AFTER)?.since(self.clock.now())))
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

fn date(headers: &HeaderMap, name: header::HeaderName) -> Option<Timestamp> {
    let at = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_seconds(i64::try_from(since.as_secs()).ok()?))
}

/// An authority that did not answer.
#[derive(Debug)]
pub(super) struct Silent(FetchError);

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.reason())
    }
}

impl std::error::Error for Silent {}
