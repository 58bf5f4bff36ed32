//! CORS for browser-based clients (`OA-21` to `OA-24`): any origin, no credentials. Runs before authentication:
//! preflights carry no credentials, and error responses must be readable.

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header};

/// `*` does not cover `Authorization`, so each is named (Fetch, "CORS non-wildcard request-header name").
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, Cache-Control, If-None-Match, MCP-Protocol-Version, Mcp-Session-Id, Last-Event-ID, Mcp-Method, Mcp-Name";
const ALLOWED_METHODS: &str = "GET, POST, DELETE, OPTIONS";
const EXPOSED_HEADERS: &str = "WWW-Authenticate, ETag, Mcp-Session-Id, MCP-Protocol-Version, Retry-After";

/// Answers preflights of every route of `router` with 204, and adds CORS headers to every other response.
pub fn open(router: Router) -> Router {
    router.route_layer(middleware::from_fn(answer))
}

async fn answer(request: Request, next: Next) -> Response {
    around(request, |request| next.run(request)).await
}

/// Answers a preflight with 204, and adds CORS headers to every other response of `handler`.
pub async fn around<F: Future<Output = Response>>(request: Request, handler: impl FnOnce(Request) -> F) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
        response
    } else {
        handler(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    response
}
