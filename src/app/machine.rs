//! Endpoints for machines: health, readiness, metrics and status. Decides about access to them.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, StatusCode, header};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    backend::Supervisor,
    gateway::Gateway,
    model::ClientIp,
    oauth::OAuth,
    resource::{Gate, protect_administration},
    support::{Digest, Latch},
    telemetry::Telemetry,
    web::StatusSource,
};

/// The state of the endpoints.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) status: StatusSource,
    pub(super) telemetry: Telemetry,
    pub(super) gate: Gate,
    pub(super) oauth: OAuth,
    /// Cancelled when the gateway is about to stop.
    pub(super) leaving: CancellationToken,
    /// Open once the backends of the start have been listed, or failed.
    pub(super) started: Latch,
    /// Digest of the token in the control file, which opens everything to readers of the data folder.
    pub(super) control: Digest,
}

/// Routes without their gate, and the access that bypasses it.
#[derive(Clone)]
struct SideDoor {
    open: Router,
    control: Digest,
}

// === impl Machine ===

impl Machine {
    async fn has_started(&self) -> bool {
        if !self.started.is_open() && self.supervisor.ready(Duration::ZERO).await && self.gateway.is_listed() {
            self.started.open();
        }
        self.started.is_open()
    }
}

/// `/healthz` and `/readyz` for everybody; `/api/status` and `/metrics` for administrators and for the holder of the
/// control token, `/metrics` also for a scraper on this machine.
pub(super) fn router(machine: Machine) -> Router {
    let closed = Router::new().route("/api/status", get(status)).route("/metrics", get(render));
    let closed = closed.with_state(machine.clone());
    let door = SideDoor { open: closed.clone(), control: machine.control };
    let gated = protect_administration(closed, machine.gate.clone());
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .with_state(machine)
        .merge(gated.route_layer(from_fn_with_state(door, side_door)))
}

/// Ready once every backend has started and been listed, or failed: a failed backend does not take the others out of
/// service, and neither does one that starts later, after a reload or since this replica became the home. Not ready while the
/// database does not answer, and from the signal to stop on.
async fn readiness(State(machine): State<Machine>) -> Response {
    let unready = if machine.leaving.is_cancelled() {
        "stopping\n"
    } else if !machine.has_started().await {
        "starting: some backends have not answered yet\n"
    } else if !machine.oauth.database_answers().await {
        "waiting: the database does not answer\n"
    } else {
        return "ready\n".into_response();
    };
    (StatusCode::SERVICE_UNAVAILABLE, unready).into_response()
}

async fn status(State(machine): State<Machine>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], Json((machine.status)()))
}

async fn render(State(machine): State<Machine>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], machine.telemetry.render())
}

async fn side_door(State(door): State<SideDoor>, request: Request, next: Next) -> Response {
    let scraper = request.uri().path() == "/metrics" && is_local(&request);
    if scraper || bearer_digest(request.headers()) == Some(door.control) {
        door.open.oneshot(request).await.into_response()
    } else {
        next.run(request).await
    }
}

/// True for a request from a process on this machine. A proxy on this machine adds one of these headers.
fn is_local(request: &Request) -> bool {
    const FORWARDED: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
    let from = request.extensions().get::<ClientIp>();
    from.is_some_and(|ip| ip.0.is_loopback()) && !FORWARDED.iter().any(|name| request.headers().contains_key(*name))
}

fn bearer_digest(headers: &HeaderMap) -> Option<Digest> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Digest::sha256(token.trim()))
}
