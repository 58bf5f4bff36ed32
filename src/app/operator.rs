//! Operations on the running gateway for holders of the control token: restart a server, read what its programs print,
//! end a session, change the log filter for a while. Every use is in the audit trail. Other callers are rejected, even
//! administrators.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{log_switch::LogSwitch, machine::bearer_digest};
use crate::{
    audit::OperationEvent,
    backend::{RestartRefusal, Supervisor},
    frontend::{EndedSession, Frontend},
    model::{
        BackendId, UserId,
        status::{KeptLine, ListedClients},
    },
    oauth::OAuth,
    support::{Digest, printable_name},
    telemetry::TelemetryError,
    web::StatusSource,
};

/// Maximum time for a changed log filter.
pub const MAX_RAISED: Duration = Duration::from_hours(24);
/// Maximum length of the operator's name, in characters.
const MAX_OPERATOR: usize = 100;
/// Maximum wait of a command for a server's restart.
const RESTART_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum wait of a command for the next line.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts that operations act on.
#[derive(Clone)]
pub(super) struct OperatorDesk {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) frontend: Frontend,
    pub(super) oauth: OAuth,
    pub(super) status: StatusSource,
    pub(super) log: LogSwitch,
    pub(super) tracker: TaskTracker,
    /// Cancelled when the gateway ends.
    pub(super) cancel: CancellationToken,
    /// Digest of the token in the control file.
    pub(super) control: Digest,
}

/// Name of the operator, as sent by the command.
#[derive(Deserialize)]
struct Operator {
    #[serde(default)]
    by: String,
}

/// The lines of a server's output to return.
#[derive(Deserialize)]
struct OutputQuery {
    /// Number of the last line that the command has; `None` for all lines at once.
    after: Option<u64>,
    #[serde(default)]
    by: String,
}

/// The filter to set.
#[derive(Deserialize)]
struct LogQuery {
    /// `None` returns to the configured filter.
    filter: Option<String>,
    #[serde(default)]
    seconds: u64,
    #[serde(default)]
    by: String,
}

/// Status, what is wrong, and what to do.
struct DeskRefusal(StatusCode, String, &'static str);

/// Routes of the operations.
pub(super) fn router(desk: OperatorDesk) -> Router {
    let control = desk.control;
    Router::new()
        .route("/api/servers/{server}/restart", post(restart))
        .route("/api/servers/{server}/output", get(output))
        .route("/api/sessions/{session}/end", post(end_session))
        .route("/api/log", post(change_log))
        .route_layer(from_fn_with_state(control, admit))
        .with_state(desk)
}

/// Lets only holders of the control token in.
async fn admit(State(control): State<Digest>, request: Request, next: Next) -> Response {
    if bearer_digest(request.headers()) != Some(control) {
        let what = "only commands on the gateway's machine may do this".to_owned();
        return DeskRefusal(StatusCode::FORBIDDEN, what, "run the command there, as the gateway's user")
            .into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

async fn restart(
    State(desk): State<OperatorDesk>,
    Path(server): Path<String>,
    Query(Operator { by }): Query<Operator>,
) -> Result<Json<Value>, DeskRefusal> {
    let id = named(&server)?;
    desk.supervisor.may_restart(&id).map_err(|refusal| match refusal {
        RestartRefusal::Unknown => unknown(&server),
        RestartRefusal::BuiltIn => {
            conflict(format!("`{id}` is the built-in server, which has no process and no connection"), "")
        }
        RestartRefusal::Elsewhere => {
            conflict(format!("`{id}` runs at another replica"), "run the command on the machine of that replica")
        }
    })?;
    desk.record(OperationEvent::ServerRestarted(id.clone()), &by);
    desk.supervisor.restart(&id, RESTART_TIMEOUT).await;
    let status = (desk.status)(ListedClients::Nobodys);
    let state = status.backends.into_iter().find(|backend| backend.id == id.as_str()).map(|backend| backend.state);
    Ok(Json(json!({ "server": id.as_str(), "now": state })))
}

async fn output(
    State(desk): State<OperatorDesk>,
    Path(server): Path<String>,
    Query(query): Query<OutputQuery>,
) -> Result<Json<Vec<KeptLine>>, DeskRefusal> {
    let id = named(&server)?;
    let (after, patience) = query.after.map_or((0, Duration::ZERO), |after| (after, FOLLOW_TIMEOUT));
    let lines = desk.cancel.run_until_cancelled(desk.supervisor.output(&id, after, patience)).await;
    let lines = lines.unwrap_or_else(|| Some(Vec::new())).ok_or_else(|| unknown(&server))?;
    // once for a command that follows the output
    if query.after.is_none() {
        desk.record(OperationEvent::OutputRead(id), &query.by);
    }
    Ok(Json(lines))
}

async fn end_session(
    State(desk): State<OperatorDesk>,
    Path(session): Path<String>,
    Query(Operator { by }): Query<Operator>,
) -> Result<Json<Value>, DeskRefusal> {
    match desk.frontend.end_session_like(&session).await {
        EndedSession::One(ended) => {
            desk.record(OperationEvent::SessionEnded(UserId::new(ended.user.as_str()), session), &by);
            Ok(Json(json!({ "ended": ended })))
        }
        EndedSession::Unknown => {
            let what = format!("no session has an id that begins with `{session}`");
            Err(DeskRefusal(StatusCode::NOT_FOUND, what, "`lockkeeper sessions list` shows the sessions"))
        }
        EndedSession::Several(number) => {
            Err(conflict(format!("{number} sessions have an id that begins with `{session}`"), "give more of the id"))
        }
    }
}

async fn change_log(
    State(desk): State<OperatorDesk>,
    Query(LogQuery { filter, seconds, by }): Query<LogQuery>,
) -> Result<Json<Value>, DeskRefusal> {
    let failed = |error: TelemetryError| DeskRefusal(StatusCode::BAD_REQUEST, error.to_string(), "");
    let Some(filter) = filter else {
        let was_raised = desk.log.end().map_err(failed)?;
        desk.record(OperationEvent::LogChanged("as configured".to_owned()), &by);
        return Ok(Json(json!({ "filter": Value::Null, "changed": was_raised })));
    };
    let time = Duration::from_secs(seconds);
    if time.is_zero() || time > MAX_RAISED {
        let what = "the log is changed for a second at least, and for 24 hours at most".to_owned();
        return Err(DeskRefusal(StatusCode::BAD_REQUEST, what, "for longer, set `[log]` in the configuration"));
    }
    let over = desk.log.raise(&filter).map_err(failed)?;
    desk.record(OperationEvent::LogChanged(format!("{filter} for {} s", time.as_secs())), &by);
    let (log, cancel) = (desk.log.clone(), desk.cancel.clone());
    desk.tracker.spawn(async move {
        cancel.run_until_cancelled(log.end_after(over, time)).await;
    });
    Ok(Json(json!({ "filter": filter, "changed": true, "seconds": time.as_secs() })))
}

fn named(server: &str) -> Result<BackendId, DeskRefusal> {
    BackendId::normalise(server).map_err(|_| unknown(server))
}

fn unknown(server: &str) -> DeskRefusal {
    let what = format!("there is no server `{server}`");
    DeskRefusal(StatusCode::NOT_FOUND, what, "`lockkeeper list` shows the servers")
}

const fn conflict(what: String, advice: &'static str) -> DeskRefusal {
    DeskRefusal(StatusCode::CONFLICT, what, advice)
}

// === impl OperatorDesk ===

impl OperatorDesk {
    fn record(&self, event: OperationEvent, by: &str) {
        self.oauth.audit().record(event.by(printable_name(by, MAX_OPERATOR)));
    }
}

// === impl DeskRefusal ===

impl IntoResponse for DeskRefusal {
    fn into_response(self) -> Response {
        let Self(status, error, advice) = self;
        (status, Json(json!({ "error": error, "advice": advice }))).into_response()
    }
}
