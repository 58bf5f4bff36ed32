//! A protected MCP server with its authorization server. Tokens are checked in front of a 2025-06-18 server; each
//! account has its own.

use std::{collections::HashMap, io, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use lockkeeper::mcp::Revision;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    answering::AnsweringServer,
    authority::{
        Access, Asked, Endpoint, ScriptedAuthority,
        answers::{self, Answer},
    },
    carriers::Mounted,
};

const SERVER: &str = "/mcp";
const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";
/// Headers that let pages of all origins read an answer.
const TO_PAGES: [(header::HeaderName, &str); 3] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "www-authenticate"),
];

/// The server, and its authorization server.
pub(crate) struct ProtectedServer {
    pub(crate) url: String,
    pub(crate) authority: ScriptedAuthority,
    site: Arc<Site>,
    _tasks: JoinSet<io::Result<()>>,
}

struct Site {
    origin: String,
    authority: ScriptedAuthority,
    /// A method, and its required scope.
    needs: Mutex<Option<(&'static str, &'static str)>>,
    /// The server of each account.
    servers: Mutex<HashMap<String, Arc<Mounted>>>,
}

// === impl ProtectedServer ===

impl ProtectedServer {
    /// Listens on a different port than its authorization server.
    pub(crate) async fn start() -> Self {
        let (listener, others) = (listener().await, listener().await);
        let authority = ScriptedAuthority::oauth(&origin(&others));
        let routes = Router::new().fallback(serve_authority).with_state(authority.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(axum::serve(others, to_pages(routes, &authority)).into_future());
        Self::at(listener, authority, tasks)
    }

    /// Listens on the same port as its authorization server.
    pub(crate) async fn start_at_one_origin() -> Self {
        let listener = listener().await;
        let authority = ScriptedAuthority::oauth(&origin(&listener));
        Self::at(listener, authority, JoinSet::new())
    }

    fn at(listener: TcpListener, authority: ScriptedAuthority, mut tasks: JoinSet<io::Result<()>>) -> Self {
        let (origin, needs, servers) = (origin(&listener), Mutex::default(), Mutex::default());
        let url = format!("{origin}{SERVER}");
        let site = Arc::new(Site { origin, authority: authority.clone(), needs, servers });
        let routes = Router::new().fallback(serve_site).with_state(Arc::clone(&site));
        tasks.spawn(axum::serve(listener, to_pages(routes, &authority)).into_future());
        Self { url, authority, site, _tasks: tasks }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.site.origin
    }

    /// Makes it name these authorization servers.
    pub(crate) fn names_issuers(&self, issuers: &[&str]) {
        self.authority.differs(Endpoint::Resource, json!({ "authorization_servers": issuers }));
    }

    /// Makes it name another server's authorization server, whose tokens it does not accept.
    pub(crate) fn moves_to(&self, other: &Self) {
        self.names_issuers(&[other.authority.issuer()]);
        self.authority.expire();
    }

    /// Makes it name this resource.
    pub(crate) fn names_resource(&self, resource: &str) {
        self.authority.differs(Endpoint::Resource, json!({ "resource": resource }));
    }

    /// Makes a method require a scope.
    pub(crate) fn need(&self, method: &'static str, scope: &'static str) {
        *self.site.needs.lock() = Some((method, scope));
    }

    /// Makes it reject all access tokens, although its authorization server issues them.
    pub(crate) fn reject_all(&self) {
        self.authority.answers(Endpoint::Server, self.site.challenge());
    }
}

// === impl Site ===

impl Site {
    fn metadata(&self) -> String {
        format!("{}{METADATA}", self.origin)
    }

    fn challenge(&self) -> Answer {
        answers::challenge(&self.metadata())
    }

    /// Passes a call with a valid token to its account's server.
    async fn call(&self, request: http::Request<Bytes>) -> Response {
        match self.judge(&request) {
            Ok(access) => self.server(access.account).answer(request.map(Body::from)).await,
            Err(answer) => answer.map(Body::from),
        }
    }

    fn judge(&self, request: &http::Request<Bytes>) -> Result<Access, Answer> {
        let asked = Asked::read(request);
        if let Some(answer) = self.authority.instead(Endpoint::Server, &asked) {
            return Err(answer);
        }
        let token = asked.authorization().strip_prefix("Bearer ").unwrap_or_default();
        let access = self.authority.access(token).ok_or_else(|| self.challenge())?;
        let message = asked.json();
        if let Some((method, scope)) = *self.needs.lock()
            && message["method"] == method
            && !access.has(scope)
        {
            return Err(answers::insufficient_scope(&self.metadata(), scope));
        }
        if message["method"] == "tools/call" {
            self.authority.record(format!("call {}", access.account), &asked);
        }
        Ok(access)
    }

    fn server(&self, account: String) -> Arc<Mounted> {
        let mut servers = self.servers.lock();
        let server = servers.entry(account).or_insert_with_key(|account| {
            let account = account.clone();
            let actor = AnsweringServer::new(Revision::V2025_06_18, move |method, _| result(&account, method));
            Arc::new(Mounted::new(Arc::new(actor)))
        });
        Arc::clone(server)
    }

    fn resource(&self) -> Answer {
        let document = json!({ "resource": format!("{}{SERVER}", self.origin), "authorization_servers": [self.authority.issuer()] });
        answers::json(StatusCode::OK, &self.authority.declared(Endpoint::Resource, document))
    }
}

/// The results of an account's server.
fn result(account: &str, method: &str) -> Option<Value> {
    Some(match method {
        "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "protected", "version": "1" } }),
        "tools/list" => json!({ "tools": [{ "name": "whoami", "description": format!("Says {account}"),
            "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": account }] }),
        "ping" => json!({}),
        _ => return None,
    })
}

/// The server without its own streams, its metadata, and the authorization server if it has the same origin.
async fn serve_site(State(site): State<Arc<Site>>, request: Request) -> Response {
    let request = whole(request).await;
    match (request.uri().path(), request.method()) {
        (SERVER, &Method::POST) => site.call(request).await,
        (SERVER, _) => answers::status(StatusCode::METHOD_NOT_ALLOWED).map(Body::from),
        (METADATA, _) => site.resource().map(Body::from),
        _ if site.authority.issuer() == site.origin => site.authority.serve(&request).map(Body::from),
        _ => answers::status(StatusCode::NOT_FOUND).map(Body::from),
    }
}

async fn serve_authority(State(authority): State<ScriptedAuthority>, request: Request) -> Response {
    authority.serve(&whole(request).await).map(Body::from)
}

async fn whole(request: Request) -> http::Request<Bytes> {
    let (parts, body) = request.into_parts();
    http::Request::from_parts(parts, to_bytes(body, usize::MAX).await.unwrap())
}

/// Lets pages of all origins read the answers, if the script says so.
fn to_pages(routes: Router, authority: &ScriptedAuthority) -> Router {
    routes.layer(middleware::from_fn_with_state(authority.clone(), open_to_pages))
}

async fn open_to_pages(State(authority): State<ScriptedAuthority>, request: Request, next: Next) -> Response {
    if !authority.script().is_open_to_pages {
        return next.run(request).await;
    }
    let mut response = match *request.method() {
        Method::OPTIONS => answers::status(StatusCode::NO_CONTENT).map(Body::from),
        _ => next.run(request).await,
    };
    let headers = TO_PAGES.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn origin(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}
