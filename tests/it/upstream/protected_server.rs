//! A protected MCP server of 2025-06-18 and its authorization server, on two ports of this machine. Each account there
//! has its own tools.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Form, Json, Router,
    body::Bytes,
    extract::{Query, State},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

/// Server and authorization server.
pub(super) struct ProtectedServer {
    pub(super) url: String,
    state: Arc<Inner>,
    _tasks: JoinSet<std::io::Result<()>>,
}

struct Inner {
    server: String,
    issuer: String,
    numbers: AtomicU64,
    table: Mutex<Table>,
    logged: Notify,
}

/// What happened, and what is to happen.
#[derive(Default)]
struct Table {
    /// The account of each access token, and its scopes.
    access: HashMap<String, (String, String)>,
    refresh: HashMap<String, (String, String)>,
    codes: HashMap<String, (String, String)>,
    clients: Vec<String>,
    /// The account that logs in next.
    account: String,
    log: Vec<String>,
    /// A method, and the scope that it needs.
    needs: Option<(&'static str, &'static str)>,
    /// The authorization servers that it names, if those are others.
    authorities: Option<Vec<String>>,
    /// The resource that it names, if that is another one.
    resource: Option<String>,
    is_down: bool,
    /// Accepts no access token, though they are issued.
    rejects_all: bool,
}

// === impl ProtectedServer ===

impl ProtectedServer {
    pub(super) async fn start() -> Self {
        let (server, authority) = (listener().await, listener().await);
        let (url, issuer) = (origin(&server), origin(&authority));
        let inner = Inner {
            server: url.clone(),
            issuer,
            numbers: AtomicU64::new(0),
            table: Mutex::default(),
            logged: Notify::new(),
        };
        let state = Arc::new(inner);
        let mcp = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/mcp", post(serve).get(async || StatusCode::METHOD_NOT_ALLOWED))
            .with_state(Arc::clone(&state));
        let oauth = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(Arc::clone(&state));
        let mut tasks = JoinSet::new();
        tasks.spawn(axum::serve(server, mcp).into_future());
        tasks.spawn(axum::serve(authority, oauth).into_future());
        Self { url: format!("{url}/mcp"), state, _tasks: tasks }
    }

    /// Has this account log in next.
    pub(super) fn account(&self, name: &str) {
        name.clone_into(&mut self.state.table.lock().account);
    }

    /// Rejects all access tokens from now on; refresh tokens stay.
    pub(super) fn expire(&self) {
        self.state.table.lock().access.clear();
    }

    /// Has the server accept no access token, whatever its authorization server issues.
    pub(super) fn reject_all(&self, rejects_all: bool) {
        self.state.table.lock().rejects_all = rejects_all;
    }

    /// Ends everything of everybody.
    pub(super) fn forget(&self) {
        let mut table = self.state.table.lock();
        table.access.clear();
        table.refresh.clear();
    }

    /// Forgets the registered clients.
    pub(super) fn forget_clients(&self) {
        self.state.table.lock().clients.clear();
    }

    /// Has tools need this scope.
    pub(super) fn need(&self, scope: &'static str) {
        self.need_for("tools/call", scope);
    }

    /// Has a method need this scope.
    pub(super) fn need_for(&self, method: &'static str, scope: &'static str) {
        self.state.table.lock().needs = Some((method, scope));
    }

    /// Names the authorization server of another one, whose tokens it does not know.
    pub(super) fn moves_to(&self, other: &Self) {
        self.names_issuers(&[&other.state.issuer]);
        self.expire();
    }

    /// Names these authorization servers.
    pub(super) fn names_issuers(&self, issuers: &[&str]) {
        let issuers = issuers.iter().map(|&issuer| issuer.to_owned()).collect();
        self.state.table.lock().authorities = Some(issuers);
    }

    /// The issuer of its own authorization server.
    pub(super) fn issuer(&self) -> String {
        self.state.issuer.clone()
    }

    /// Has the authorization server know this client, whose secret is `secret-of-<id>`.
    pub(super) fn knows_client(&self, id: &str) {
        self.state.table.lock().clients.push(id.to_owned());
    }

    /// Has the metadata of the server name this resource.
    pub(super) fn names_resource(&self, resource: &str) {
        self.state.table.lock().resource = Some(resource.to_owned());
    }

    /// The origin of the server.
    pub(super) fn origin(&self) -> String {
        self.state.server.clone()
    }

    /// Has the authorization server fail.
    pub(super) fn break_down(&self, is_down: bool) {
        self.state.table.lock().is_down = is_down;
    }

    /// The requests to the authorization server so far, and the accounts of tool calls.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.table.lock().log)
    }

    /// Waits for a further line of the log.
    pub(super) async fn logged(&self) {
        self.state.logged.notified().await;
    }

    /// True if a refresh token of this account is known.
    pub(super) fn knows(&self, account: &str) -> bool {
        self.state.table.lock().refresh.values().any(|(of, _)| of == account)
    }

    /// A live access token of an account.
    pub(super) fn token_of(&self, account: &str) -> Option<String> {
        let table = self.state.table.lock();
        table.access.iter().find(|(_, (of, _))| of == account).map(|(token, _)| token.clone())
    }
}

impl Inner {
    fn mint(&self, kind: &str) -> String {
        format!("{kind}-{}", self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    fn log(&self, text: String) {
        self.table.lock().log.push(text);
        self.logged.notify_one();
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn origin(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

async fn resource(State(inner): State<Arc<Inner>>) -> Json<Value> {
    let moved = inner.table.lock().authorities.clone();
    let named = inner.table.lock().resource.clone();
    let resource = named.unwrap_or_else(|| format!("{}/mcp", inner.server));
    let issuers = moved.unwrap_or_else(|| vec![inner.issuer.clone()]);
    Json(json!({ "resource": resource, "authorization_servers": issuers, "scopes_supported": ["read"] }))
}

async fn metadata(State(inner): State<Arc<Inner>>) -> Json<Value> {
    let issuer = &inner.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn register(State(inner): State<Arc<Inner>>, Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    let id = inner.mint("client");
    inner.table.lock().clients.push(id.clone());
    inner.log(format!("register {} {}", asked["redirect_uris"][0].as_str().unwrap(), asked["application_type"]));
    let mut answer = asked;
    answer["client_id"] = id.clone().into();
    answer["client_secret"] = format!("secret-of-{id}").into();
    (StatusCode::CREATED, Json(answer))
}

async fn authorize(State(inner): State<Arc<Inner>>, Query(query): Query<HashMap<String, String>>) -> Response {
    if !inner.table.lock().clients.contains(&query["client_id"]) {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_client" }))).into_response();
    }
    let code = inner.mint("code");
    let account = inner.table.lock().account.clone();
    inner.table.lock().codes.insert(code.clone(), (account, query["scope"].clone()));
    inner.log(format!("authorize scope={} resource={}", query["scope"], asked_resource(&query)));
    assert_eq!(query["code_challenge_method"], "S256");
    let (target, state) = (&query["redirect_uri"], &query["state"]);
    Redirect::to(&format!("{target}?code={code}&state={state}&iss={}", inner.issuer)).into_response()
}

async fn token(State(inner): State<Arc<Inner>>, Form(form): Form<HashMap<String, String>>) -> Response {
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    inner.log(format!("token {} resource={}", form["grant_type"], asked_resource(&form)));
    if inner.table.lock().is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if form.get("client_secret") != Some(&format!("secret-of-{}", form["client_id"])) {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_client" }))).into_response();
    }
    let found = {
        let mut table = inner.table.lock();
        match form["grant_type"].as_str() {
            "authorization_code" => table.codes.remove(&form["code"]),
            "client_credentials" => Some((form["client_id"].clone(), form.get("scope").cloned().unwrap_or_default())),
            _ => table.refresh.remove(&form["refresh_token"]),
        }
    };
    let Some((account, scope)) = found else { return refuse("invalid_grant") };
    let (access, refresh) = (inner.mint("access"), inner.mint("refresh"));
    let mut table = inner.table.lock();
    table.access.insert(access.clone(), (account.clone(), scope.clone()));
    table.refresh.insert(refresh.clone(), (account, scope.clone()));
    let answer = json!({ "access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh, "scope": scope });
    Json(answer).into_response()
}

/// The resource of a request, as the log has it.
fn asked_resource(parameters: &HashMap<String, String>) -> &'static str {
    match parameters.get("resource") {
        None => "none",
        Some(resource) if resource.ends_with("/mcp") => "mcp",
        Some(_) => "other",
    }
}

async fn revoke(State(inner): State<Arc<Inner>>, Form(form): Form<HashMap<String, String>>) -> StatusCode {
    let account = inner.table.lock().refresh.remove(&form["token"]).map(|(account, _)| account).unwrap_or_default();
    inner.table.lock().access.retain(|_, (of, _)| *of != account);
    inner.log(format!("revoke {account} {}", form["token_type_hint"]));
    StatusCode::OK
}

/// A server with sessions that are never missed.
async fn serve(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let known = bearer.and_then(|token| inner.table.lock().access.get(token).cloned());
    let known = known.filter(|_| !inner.table.lock().rejects_all);
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", inner.server);
    let Some((account, scopes)) = known else {
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    };
    let message: Value = serde_json::from_slice(&body).unwrap();
    let needs = inner.table.lock().needs;
    if let Some((_, scope)) =
        needs.filter(|(method, scope)| message["method"] == *method && !scopes.split(' ').any(|had| had == *scope))
    {
        let challenge =
            format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata}\"");
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "protected", "version": "1" } }),
        "tools/list" => json!({ "tools": [{ "name": "whoami", "description": format!("Says {account}"),
            "inputSchema": { "type": "object" } }] }),
        "tools/call" => {
            inner.log(format!("call {account}"));
            json!({ "content": [{ "type": "text", "text": account }] })
        }
        "ping" => json!({}),
        method if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).into_response();
        }
    };
    let answer = Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
    ([("mcp-session-id", "s1")], answer).into_response()
}
