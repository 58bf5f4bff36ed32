//! Routes of the OAuth endpoints: paths, CORS, limits, cache headers (`OA-1` to `OA-30`).

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, OriginalUri, State, rejection::BytesRejection},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tower_http::set_header::SetResponseHeaderLayer;

use super::{
    authorize::{device::DeviceAuthorizations, pushed_request_endpoint::PushedRequestEndpoint},
    clients::{
        client_auth::ClientRequest,
        client_documents::{ClientDocumentSupport, ClientDocuments},
        registration::Registrations,
    },
    cors,
    credentials::{introspection_endpoint::IntrospectionEndpoint, revocation_endpoint::RevocationEndpoint},
    error::{ErrorResponse, record_refusal},
    form::Params,
    metadata,
    oauth_settings::OAuthSettings,
    policy::StrangerVerdict,
    secrets::signing::SigningKeys,
    token::TokenEndpoint,
};
use crate::{
    audit::Audit,
    model::{ClientIp, Endpoint},
    support::Digest,
};

const FORM: &str = "application/x-www-form-urlencoded";

/// Maximum size of a form, in bytes (`OA-30`).
const FORM_LIMIT: usize = 64 * 1024;

/// Maximum size of a registration, in bytes (`OA-30`).
const REGISTRATION_LIMIT: usize = 16 * 1024;

/// The body of a request, or the reason why it could not be read.
type Body = Result<Bytes, BytesRejection>;

/// Services behind the endpoints. Cheap to clone.
#[derive(Clone)]
pub(super) struct Endpoints {
    pub(super) audit: Audit,
    pub(super) settings: Arc<OAuthSettings>,
    pub(super) client_documents: Option<Arc<ClientDocuments>>,
    pub(super) signing: Arc<SigningKeys>,
    pub(super) token: Arc<TokenEndpoint>,
    pub(super) devices: Arc<DeviceAuthorizations>,
    pub(super) pushed_requests: Arc<PushedRequestEndpoint>,
    pub(super) registrations: Arc<Registrations>,
    pub(super) revocation: Arc<RevocationEndpoint>,
    pub(super) introspection: Arc<IntrospectionEndpoint>,
}

/// Router of every endpoint.
pub(super) fn router(endpoints: Endpoints) -> Router {
    let (_, base) = endpoints.settings.split_issuer();
    let base = base.to_owned();
    let token = post(token).fallback(only_post).layer(DefaultBodyLimit::max(FORM_LIMIT));
    let register = post(register).fallback(only_post).layer(DefaultBodyLimit::max(REGISTRATION_LIMIT));
    let revoke = post(revoke).fallback(only_post).layer(DefaultBodyLimit::max(FORM_LIMIT));
    let device = post(device).fallback(only_post).layer(DefaultBodyLimit::max(FORM_LIMIT));
    let push = post(push).fallback(only_post).layer(DefaultBodyLimit::max(FORM_LIMIT));
    let introspect = post(introspect).fallback(only_post).layer(DefaultBodyLimit::max(FORM_LIMIT));
    let secrets = Router::new()
        .route("/oauth/token", token.clone())
        .route("/token", token)
        .route("/oauth/register", register.clone())
        .route("/register", register)
        .route("/oauth/revoke", revoke)
        .route("/oauth/introspect", introspect)
        .route("/oauth/device_authorization", device)
        .route("/oauth/par", push)
        .layer(set(header::CACHE_CONTROL, "no-store"))
        .layer(set(header::PRAGMA, "no-cache"));
    let jwks = get(jwks).fallback(only_get);
    let discovery = get(discover).fallback(only_get);
    let mut router = Router::new().merge(secrets).route("/oauth/jwks", jwks);
    router = router.route("/.well-known/{*path}", discovery.clone());
    // clients also probe below the endpoints, and must not take another response for a document (OA-16)
    for path in ["/mcp", "/mcp/{backend}", "/sse", "/sse/{backend}"] {
        router = router.route(&format!("{path}/.well-known/{{*path}}"), get(async || not_found()));
    }
    if !base.is_empty() {
        // OA-7: `/p/.well-known/openid-configuration`
        router = router.route(&format!("{base}/.well-known/{{*path}}"), discovery);
    }
    let recorded = middleware::map_response_with_state(endpoints.audit.clone(), record_refusal);
    cors::open(router.layer(recorded).with_state(endpoints))
}

fn set(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

async fn token(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ErrorResponse> {
    let form = form(&headers, body)?;
    let request = ClientRequest { headers: &headers, form: &form, from: address(ip) };
    endpoints.token.token(request).await.map(Json)
}

async fn revoke(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ErrorResponse> {
    let form = form(&headers, body)?;
    let request = ClientRequest { headers: &headers, form: &form, from: address(ip) };
    endpoints.revocation.revoke(request).await.map(|()| StatusCode::OK)
}

async fn introspect(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ErrorResponse> {
    let form = form(&headers, body)?;
    let request = ClientRequest { headers: &headers, form: &form, from: address(ip) };
    endpoints.introspection.introspect(request).await.map(Json)
}

async fn register(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), ErrorResponse> {
    let body = body.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorResponse::RegistrationTooLarge(REGISTRATION_LIMIT),
        _ => ErrorResponse::InvalidClientMetadata("the body could not be read".to_owned()),
    })?;
    let ip = address(ip);
    let metadata = endpoints.registrations.register(&body, bearer(&headers), ip).await?;
    Ok((StatusCode::CREATED, Json(Value::Object(metadata))))
}

async fn device(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorResponse> {
    let form = form(&headers, body)?;
    let request = ClientRequest { headers: &headers, form: &form, from: address(ip) };
    let answer = endpoints.devices.begin(request).await?;
    Ok(Json(answer).into_response())
}

async fn push(
    State(endpoints): State<Endpoints>,
    ip: Option<Extension<ClientIp>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), ErrorResponse> {
    let form = form(&headers, body)?;
    let request = ClientRequest { headers: &headers, form: &form, from: address(ip) };
    let pushed = endpoints.pushed_requests.push(request).await?;
    Ok((StatusCode::CREATED, Json(pushed)))
}

/// The bearer token of a request; `None` if there is none, or if there are several headers.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn address(ip: Option<Extension<ClientIp>>) -> ClientIp {
    ip.map_or(ClientIp(std::net::Ipv4Addr::LOCALHOST.into()), |Extension(ip)| ip)
}

async fn jwks(State(endpoints): State<Endpoints>, headers: HeaderMap) -> Response {
    document(&headers, &endpoints.signing.jwks())
}

/// Documents below `/.well-known/`. Unknown paths get 404 in JSON, so that clients continue with their next probe
/// (`OA-16`).
async fn discover(State(endpoints): State<Endpoints>, OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    let settings = &endpoints.settings;
    let (_, base) = settings.split_issuer();
    let path = uri.path();
    let below = |prefix: &str| path.strip_prefix("/.well-known/").and_then(|path| path.strip_prefix(prefix));
    if let Some(rest) = below("oauth-protected-resource") {
        return match resource(settings, rest, base) {
            Some(endpoint) => document(&headers, &metadata::resource(settings, &endpoint)),
            None => not_found(),
        };
    }
    let at_issuer = |rest: &str| rest == base;
    let documents = ClientDocumentSupport::of(endpoints.client_documents.as_deref());
    if below("oauth-authorization-server").is_some_and(at_issuer) {
        return document(&headers, &Value::Object(metadata::server(settings, documents)));
    }
    let appended = !base.is_empty() && path.strip_prefix(base) == Some("/.well-known/openid-configuration");
    if below("openid-configuration").is_some_and(at_issuer) || appended {
        return document(&headers, &Value::Object(metadata::openid(settings, documents)));
    }
    not_found()
}

/// The endpoint that a metadata request is for. The bare path describes the merged endpoint (`OA-2`). The response
/// reveals whether a backend exists only if the operator allows that (`OA-6`).
fn resource(settings: &OAuthSettings, rest: &str, base: &str) -> Option<Endpoint> {
    let path = rest.strip_prefix(base).unwrap_or(rest);
    if path.is_empty() || path == "/" {
        return Some(Endpoint::MERGED);
    }
    let endpoint = Endpoint::from_path(path)?;
    Some(endpoint).filter(|endpoint| settings.verdict_for_strangers(endpoint) != StrangerVerdict::Unknown)
}

/// A public document, cached for five minutes (`OA-18`).
fn document(headers: &HeaderMap, value: &Value) -> Response {
    let text = value.to_string();
    let tag = format!("\"{}\"", Digest::sha256(&text).short_hex(8));
    let cache = [(header::CACHE_CONTROL, "public, max-age=300".to_owned()), (header::ETAG, tag.clone())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, cache).into_response();
    }
    (cache, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn not_found() -> Response {
    let body = json!({ "error": "not_found", "error_description": "there is no such document here" });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

async fn only_post() -> Response {
    wrong_method("POST, OPTIONS")
}

async fn only_get() -> Response {
    wrong_method("GET, OPTIONS")
}

fn wrong_method(allowed: &'static str) -> Response {
    let body = json!({ "error": "invalid_request", "error_description": format!("the methods are {allowed}") });
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)], Json(body)).into_response()
}

/// The form in a request. It needs the exact media type, and must be UTF-8 (`OA-80`).
fn form(headers: &HeaderMap, body: Body) -> Result<Params, ErrorResponse> {
    let body = body.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorResponse::FormTooLarge(FORM_LIMIT),
        _ => ErrorResponse::InvalidRequest("the body could not be read".to_owned()),
    })?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(FORM) {
        return Err(ErrorResponse::InvalidRequest(format!("the Content-Type is not {FORM}")));
    }
    let text = str::from_utf8(&body).ok().and_then(Params::parse);
    text.ok_or_else(|| ErrorResponse::InvalidRequest("the body is not UTF-8".to_owned()))
}
