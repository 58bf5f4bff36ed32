//! A client's connection that becomes another protocol (RFC 9110 7.8), WebSocket, and is carried to another replica.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header, request::Parts};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tunnels of a replica. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Tunnels {
    /// Owns the task of each.
    pub(super) tasks: TaskTracker,
    pub(super) end: CancellationToken,
}

// === impl Tunnels ===

impl Tunnels {
    /// Passes on the client's request for another protocol, if there is one.
    pub(super) fn ask(parts: &Parts, headers: &mut HeaderMap) {
        if let Some(protocol) = parts.headers.get(header::UPGRADE) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(header::UPGRADE, protocol.clone());
        }
    }

    /// The answer of a replica that accepts the protocol; otherwise returns its answer. The tunnel is open until one
    /// side ends it, or the other replica falls silent.
    pub(super) fn open(
        &self,
        mut answer: http::Response<Incoming>,
        client: &mut Parts,
        silence: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Response, http::Response<Incoming>> {
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(answer);
        }
        let Some(client) = client.extensions.remove::<OnUpgrade>() else { return Err(answer) };
        let (server, end) = (on(&mut answer), self.end.clone());
        let copied = async move {
            let (client, server) = tokio::try_join!(client, server)?;
            // either side may end it silently
            let _ = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
            Ok::<(), hyper::Error>(())
        };
        self.tasks.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = silence => {}
                copied = copied => {
                    if let Err(error) = copied {
                        tracing::debug!(%error, "a connection to another replica did not take the protocol of its client");
                    }
                }
            }
        });
        let mut answer = answer.map(|_| Body::empty());
        *answer.version_mut() = Version::default();
        Ok(answer)
    }
}
