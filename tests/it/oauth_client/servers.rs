//! A protected server that names authorization servers as told, and authorization servers that approve everything and log
//! what they get. Each is all of it at one port.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Query, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use url::Url;

/// A server at `/mcp`, with an authorization server at its origin.
pub(super) struct Peer {
    pub(super) origin: String,
    state: Arc<PeerState>,
    _serving: JoinSet<std::io::Result<()>>,
}

struct PeerState {
    origin: String,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The resource metadata for `/mcp`, and for the origin.
    documents: [Option<Value>; 2],
    /// Every request for a token or a registration.
    log: Vec<String>,
    tokens: u32,
}

// === impl Peer ===

impl Peer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(PeerState { origin: origin.clone(), table: Mutex::default() });
        let router = Router::new()
            .route(
                "/.well-known/oauth-protected-resource/mcp",
                get(async |state: State<Arc<PeerState>>| document(&state, 0)),
            )
            .route(
                "/.well-known/oauth-protected-resource",
                get(async |state: State<Arc<PeerState>>| document(&state, 1)),
            )
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&state));
        let mut serving = JoinSet::new();
        serving.spawn(axum::serve(listener, router).into_future());
        Self { origin, state, _serving: serving }
    }

    /// The URL of the server.
    pub(super) fn url(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin)).unwrap()
    }

    /// Has the server name these authorization servers.
    pub(super) fn names(&self, issuers: &[&str]) {
        let document = json!({ "resource": self.url(), "authorization_servers": issuers });
        self.publishes([Some(document), None]);
    }

    /// Has the server publish these documents: for `/mcp`, and for the origin.
    pub(super) fn publishes(&self, documents: [Option<Value>; 2]) {
        self.state.table.lock().documents = documents;
    }

    /// The requests for tokens and registrations so far, with their credentials.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.table.lock().log)
    }
}

fn document(State(state): &State<Arc<PeerState>>, index: usize) -> Response {
    match state.table.lock().documents[index].clone() {
        Some(document) => Json(document).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn metadata(State(state): State<Arc<PeerState>>) -> Json<Value> {
    let issuer = &state.origin;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn register(State(state): State<Arc<PeerState>>, Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    state.table.lock().log.push("register".to_owned());
    let mut answer = asked;
    answer["client_id"] = json!(format!("client of {}", state.origin));
    (StatusCode::CREATED, Json(answer))
}

async fn authorize(State(state): State<Arc<PeerState>>, Query(query): Query<HashMap<String, String>>) -> Redirect {
    state.table.lock().log.push(format!("authorize resource={:?}", query.get("resource")));
    Redirect::to(&format!("{}?code=c&state={}", query["redirect_uri"], query["state"]))
}

async fn token(State(state): State<Arc<PeerState>>, headers: HeaderMap, body: Bytes) -> Json<Value> {
    let credential = headers.get(header::AUTHORIZATION).map_or("", |value| value.to_str().unwrap());
    let mut table = state.table.lock();
    table.log.push(format!("{credential} {}", String::from_utf8_lossy(&body)));
    table.tokens += 1;
    let (number, origin) = (table.tokens, &state.origin);
    Json(json!({
        "access_token": format!("access-{number}-of-{origin}"), "token_type": "Bearer", "expires_in": 3600,
        "refresh_token": format!("refresh-{number}-of-{origin}"),
    }))
}
