//! CORS for clients in browsers (`OA-21` to `OA-24`): any origin, no credentials. It runs before authentication,
//! because preflights carry no credentials and error responses must be readable.

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

/// `*` does not cover `Authorization`, so each header is named (Fetch, "CORS non-wildcard request-header name").
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, Cache-Control, If-None-Match, MCP-Protocol-Version, Mcp-Session-Id, Last-Event-ID, Mcp-Method, Mcp-Name";
/// Prefix of the headers that mirror parameters.
const PARAM: &str = "mcp-param-";
/// Maximum number of parameter headers in an answer.
const MAX_PARAMS: usize = 64;
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
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(request.headers()));
        headers.insert(header::VARY, HeaderValue::from_name(header::ACCESS_CONTROL_REQUEST_HEADERS));
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

/// The headers that pages may send: the headers of MCP, and all parameter headers that the page asks for, because
/// servers choose their names (2026-07-28, transports).
fn allowed_headers(asked: &HeaderMap) -> HeaderValue {
    let asked = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|names| names.to_str().ok());
    let asked = asked.flat_map(|names| names.split(',')).filter_map(|name| HeaderName::try_from(name.trim()).ok());
    let mut allowed = ALLOWED_HEADERS.to_owned();
    for name in asked.filter(|name| name.as_str().starts_with(PARAM)).take(MAX_PARAMS) {
        allowed.push_str(", ");
        allowed.push_str(name.as_str());
    }
    HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_023_headers_of_parameters_are_allowed_by_name() {
        let allowed = |asked: &str| {
            let asked = [(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_str(asked).unwrap())];
            let allowed = allowed_headers(&asked.into_iter().collect());
            allowed.to_str().unwrap().strip_prefix(ALLOWED_HEADERS).unwrap().to_owned()
        };
        assert_eq!(allowed("authorization,mcp-param-region, Mcp-Param-Tenant"), ", mcp-param-region, mcp-param-tenant");
        assert_eq!(allowed("mcp-params, x-mcp-param-a, cookie, mcp-param-a b"), "");
        let many: Vec<String> = (0..100).map(|number| format!("mcp-param-{number}")).collect();
        assert_eq!(allowed(&many.join(",")).matches("mcp-param-").count(), MAX_PARAMS);
    }
}
