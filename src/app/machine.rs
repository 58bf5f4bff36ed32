//! Endpoints for machines: health, readiness, metrics and status, with their access control.

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, StatusCode, Version, header, uri::Authority};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use url::{Host, Url};

use super::readings::readings;
use crate::{
    backend::Supervisor,
    gateway::Gateway,
    http::Probed,
    model::{
        BackendId, ClientIp, UserId,
        status::{ListedClients, SessionStatus},
    },
    oauth::OAuth,
    replicas::{Replicas, Unready},
    resource::{Gate, protect_administration},
    support::{Digest, Latch, MemoryBudget, ProcessTable, ProcessUse, Timestamp},
    telemetry::Telemetry,
    web::StatusSource,
};

/// The state that the endpoints for machines need.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) status: StatusSource,
    pub(super) telemetry: Telemetry,
    pub(super) budget: MemoryBudget,
    pub(super) gate: Gate,
    pub(super) oauth: OAuth,
    /// `None` unless this gateway is one of several replicas.
    pub(super) replicas: Option<Replicas>,
    pub(super) public_url: Url,
    /// The time when the gateway started.
    pub(super) since: Timestamp,
    /// Cancelled when the gateway is about to stop, but still serves.
    pub(super) leaving: CancellationToken,
    /// Opens once the lists of every configured backend were fetched, or the backend failed.
    pub(super) started: Latch,
    /// Digest of the token in the control file. Anyone who can read the data folder may use these endpoints.
    pub(super) control: Digest,
}

/// Access to routes without passing their gate.
#[derive(Clone)]
struct SideDoor {
    open: Router,
    control: Digest,
    public_url: Url,
}

// === impl Machine ===

impl Machine {
    async fn has_started(&self) -> bool {
        if !self.started.is_open() && self.supervisor.ready(Duration::ZERO).await && self.gateway.is_listed() {
            self.started.open();
        }
        self.started.is_open()
    }

    /// Why the gateway should get no requests now; `None` if it is ready.
    async fn unready(&self) -> Option<Cow<'static, str>> {
        if self.leaving.is_cancelled() {
            return Some("stopping".into());
        }
        if !self.has_started().await {
            return Some("starting: some servers have not answered yet".into());
        }
        match self.replicas.as_ref().and_then(Replicas::unready) {
            Some(Unready::NoLease) => {
                return Some("waiting: this replica cannot renew its lease in the database".into());
            }
            Some(Unready::WrongClock(difference)) => {
                return Some(
                    format!("waiting: the clock of this machine is {difference} the database's; set it").into(),
                );
            }
            None => {}
        }
        let answers = self.oauth.database_answers().await;
        (!answers).then(|| "waiting: the database does not answer".into())
    }
}

/// `/healthz` and `/readyz` are open to everyone. `/api/status` and `/metrics` need an administrator or the control
/// token. A scraper on this machine may read `/metrics` without either.
pub(super) fn router(machine: Machine) -> Router {
    let closed = Router::new().route("/api/status", get(status)).route("/metrics", get(render));
    let closed = closed.with_state(machine.clone());
    let door = SideDoor { open: closed.clone(), control: machine.control, public_url: machine.public_url.clone() };
    let gated = protect_administration(closed, machine.gate.clone());
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .with_state(machine)
        .merge(gated.route_layer(from_fn_with_state(door, side_door)))
}

/// Ready once the lists of every backend were fetched, or the backend failed: a failed backend does not take the others
/// out of service. A backend that starts later, after a reload or because this replica became the home, does not affect
/// readiness. Not ready while the database does not answer, while a replica has no lease or a wrong clock, and once the
/// stop signal has arrived.
async fn readiness(State(machine): State<Machine>) -> Response {
    match machine.unready().await {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, Extension(Probed), format!("{reason}\n")).into_response(),
    }
}

async fn status(State(machine): State<Machine>) -> impl IntoResponse {
    machine.supervisor.ask_for_other_eras().await;
    let used = used_by_programs(machine.supervisor.programs()).await;
    let mut status = (machine.status)(ListedClients::All);
    for (id, ProcessUse { processes, memory }) in used {
        if let Some(backend) = status.backends.iter_mut().find(|backend| backend.id == id.as_str()) {
            (backend.processes, backend.memory_bytes) = (Some(processes), Some(memory));
        }
    }
    name_keys(&mut status.sessions, &machine.oauth).await;
    ([(header::CACHE_CONTROL, "no-store")], Json(status))
}

/// Fills in the name of the API key, for sessions whose user is a key.
async fn name_keys(sessions: &mut [SessionStatus], oauth: &OAuth) {
    let mut unnamed: Vec<(UserId, &mut SessionStatus)> =
        sessions.iter_mut().map(|session| (UserId::new(session.user.as_str()), session)).collect();
    unnamed.retain(|(user, _)| user.is_of_key());
    if unnamed.is_empty() {
        return;
    }
    let Ok(keys) = oauth.keys().list().await else { return };
    let names: HashMap<&UserId, &String> = keys.iter().map(|key| (&key.user, &key.name)).collect();
    for (user, session) in unnamed {
        session.key_name = names.get(&user).map(|name| (*name).clone());
    }
}

/// Resources used by the programs of each backend, as far as the system shows them.
async fn used_by_programs(programs: Vec<(BackendId, Vec<u32>)>) -> Vec<(BackendId, ProcessUse)> {
    let read = move || {
        let table = ProcessTable::read()?;
        Some(programs.into_iter().filter_map(|(id, pids)| Some((id, table.used_by(&pids)?))).collect())
    };
    tokio::task::spawn_blocking(read).await.ok().flatten().unwrap_or_default()
}

async fn render(State(machine): State<Machine>) -> impl IntoResponse {
    machine.budget.report();
    let servers = machine.supervisor.vitals();
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        machine.telemetry.render(&readings(&servers, machine.since)),
    )
}

async fn side_door(State(door): State<SideDoor>, request: Request, next: Next) -> Response {
    let scraper = request.uri().path() == "/metrics" && is_local(&request, &door.public_url);
    if scraper || bearer_digest(request.headers()) == Some(door.control) {
        door.open.oneshot(request).await.into_response()
    } else {
        next.run(request).await
    }
}

/// True for a request that comes directly from a process on this machine (`OA-138`), not through a proxy here. A proxy
/// adds one of these headers, or keeps the public host name. nginx may send its own address instead, but uses HTTP/1.0
/// unless configured otherwise.
fn is_local(request: &Request, public_url: &Url) -> bool {
    const FORWARDED: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
    let from = request.extensions().get::<ClientIp>();
    from.is_some_and(|ip| ip.0.is_loopback())
        && !FORWARDED.iter().any(|name| request.headers().contains_key(*name))
        && request.version() > Version::HTTP_10
        && host(request).is_some_and(|host| is_unknown_to_strangers(&host, public_url))
}

/// Host of the request. An absolute target overrides the header (RFC 9112 3.2.2).
fn host(request: &Request) -> Option<Host> {
    let header = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    let authority: Authority = request.uri().authority().cloned().or_else(header)?;
    Host::parse(authority.host()).ok()
}

/// True for a loopback host, and for an IP address that is not in the public URL.
fn is_unknown_to_strangers(host: &Host, public_url: &Url) -> bool {
    let is_public = public_url.host().is_some_and(|public| public.to_owned() == *host);
    match host {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback() || !is_public,
        Host::Ipv6(address) => address.is_loopback() || !is_public,
    }
}

pub(super) fn bearer_digest(headers: &HeaderMap) -> Option<Digest> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Digest::sha256(token.trim()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_scraper_names_this_machine_and_not_the_public_host() {
        let answers = |public: &str, host: &str| {
            let request = Request::get("/metrics").header("host", host).extension(ClientIp([127, 0, 0, 1].into()));
            is_local(&request.body(Body::empty()).unwrap(), &Url::parse(public).unwrap())
        };
        let (named, numbered, local) = ("https://mcp.example.com", "https://203.0.113.5:8443", "http://127.0.0.1:8080");
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "a.localhost", "[::1]:8080", "10.0.0.7"] {
            assert!(answers(named, host), "{host}");
        }
        for host in ["mcp.example.com", "MCP.example.com:443", "mcp.example.com.", "localhost.evil.example", "gateway"]
        {
            assert!(!answers(named, host), "{host}");
        }
        assert!(!answers(numbered, "203.0.113.5") && !answers(numbered, "203.0.113.5:8080"));
        assert!(answers(local, "127.0.0.1:8080") && answers("http://localhost:8080", "localhost:8080"));
    }

    #[test]
    fn a_proxy_that_shows_itself_is_no_scraper() {
        let request =
            || Request::get("/metrics").header("host", "127.0.0.1").extension(ClientIp([127, 0, 0, 1].into()));
        let answers = |request: http::request::Builder| {
            is_local(&request.body(Body::empty()).unwrap(), &Url::parse("https://mcp.example.com").unwrap())
        };
        assert!(answers(request()));
        assert!(!answers(request().header("via", "1.1 proxy")));
        assert!(!answers(request().version(Version::HTTP_10)));
        assert!(!answers(request().extension(ClientIp([10, 0, 0, 7].into()))));
        assert!(!answers(request().uri("http://mcp.example.com/metrics")), "the target overrides the header");
    }
}
