//! The HTTP service of a gateway: the guard, then either the gate and the MCP endpoints, or other routes.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    response::Response,
};
use http::{Method, Uri, header};
use tower::Service;

use crate::{
    frontend::{Frontend, StreamableHttp},
    http::Guard,
    model::Endpoint,
    replicas::Replicas,
    resource::{self, Authorized, Gate, MeantMcp},
    support::pin_in_box,
    wire::headers::SESSION_ID,
};

/// HTTP service of a gateway. Cheap to clone.
#[derive(Clone)]
pub struct HttpService(Arc<ServiceRoutes>);

struct ServiceRoutes {
    guard: Guard,
    gate: Gate,
    /// MCP endpoints behind the gate: a POST of Streamable HTTP bypasses the router.
    streamable: StreamableHttp,
    endpoints: Router,
    frontend: Frontend,
    /// Routes outside of the gate.
    others: Router,
    /// `None` unless this gateway is one of several replicas.
    replicas: Option<Replicas>,
}

// === impl HttpService ===

impl HttpService {
    /// Puts the guard around the gate with the MCP endpoints, and around all other routes.
    pub(super) fn new(
        guard: Guard,
        gate: Gate,
        frontend: Frontend,
        others: Router,
        replicas: Option<Replicas>,
    ) -> Self {
        // turn off axum's limit of 2 MB: the guard has its own
        let others = others.layer(DefaultBodyLimit::disable());
        // prepares the routes once, instead of for each request
        let (endpoints, others) = (frontend.router().with_state(()), others.with_state(()));
        let streamable = frontend.streamable();
        Self(Arc::new(ServiceRoutes { guard, gate, streamable, endpoints, frontend, others, replicas }))
    }
}

impl Service<Request> for HttpService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let routes = Arc::clone(&self.0);
        pin_in_box(|| async move { Ok(routes.answer(request).await) })
    }
}

// === impl ServiceRoutes ===

impl ServiceRoutes {
    async fn answer(&self, mut request: Request) -> Response {
        let is_get = request.method() == Method::GET;
        if let Some(path) = Endpoint::intended_path(request.uri().path(), is_get)
            && let Some(uri) = with_path(request.uri(), &path)
        {
            *request.uri_mut() = uri;
        } else if means_mcp(&request)
            && let Some(uri) = with_path(request.uri(), "/mcp")
        {
            *request.uri_mut() = uri;
            request.extensions_mut().insert(MeantMcp);
        }
        self.guard
            .answer(request, async |request: Request| {
                if !resource::is_protected(request.uri().path()) {
                    return route(&self.others, request).await;
                }
                match &self.replicas {
                    None => self.protected(request).await,
                    // boxed, so that the future of a gateway without replicas does not include it
                    Some(replicas) => Box::pin(replicas.answer(request, |request| self.protected(request))).await,
                }
            })
            .await
    }

    async fn protected(&self, request: Request) -> Response {
        let unheard = |request, unheard| self.frontend.take_unheard(request, unheard);
        self.gate.answer(request, |request, authorized| self.endpoint(request, authorized), unheard).await
    }

    async fn endpoint(&self, mut request: Request, authorized: Authorized) -> Response {
        if self.streamable.takes(&request) {
            return self.streamable.post(request, authorized).await;
        }
        request.extensions_mut().insert(authorized);
        route(&self.endpoints, request).await
    }
}

/// True for a request to `/` that only a client of `/mcp` would send: the start page is only read.
fn means_mcp(request: &Request) -> bool {
    let headers = request.headers();
    let is_message = || match *request.method() {
        Method::POST => true,
        Method::OPTIONS => headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
        _ => headers.contains_key(SESSION_ID),
    };
    request.uri().path() == "/" && is_message()
}

/// Replaces the path of a URI; `None` if `path` is invalid.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

async fn route(router: &Router, request: Request) -> Response {
    match router.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
