//! Server Cards (SEP-2127) and the AI Catalog that names them: what a client may know about the endpoints before a
//! login. They reveal single servers to strangers only if the operator permits it (`conceal_servers = false`), and
//! nothing that these servers offer.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    mcp::Revision,
    model::{Binding, Endpoint, Target},
    oauth::{OAuth, OAuthSettings, StrangerVerdict, cors},
    support::Digest,
};

/// Media type of a card.
const CARD: &str = "application/mcp-server-card+json";
/// Media type of the catalog.
const CATALOG: &str = "application/ai-catalog+json";
/// Version on a card, without the patch version, which would show strangers which fixes are missing.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
/// URL of the cards' JSON schema.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";

/// Routes of the cards, below each endpoint, and of the catalog, at both of its paths.
pub(super) fn router(oauth: &OAuth) -> Router {
    let router = Router::new()
        .route("/mcp/server-card", get(merged))
        .route("/mcp/{backend}/server-card", get(single))
        .route("/.well-known/ai-catalog.json", get(catalog))
        .route("/.well-known/mcp/catalog.json", get(catalog));
    cors::open(router.with_state(Arc::new(oauth.clone())))
}

async fn merged(State(oauth): State<Arc<OAuth>>, headers: HeaderMap) -> Response {
    document(CARD, &card(oauth.settings(), &Endpoint::MERGED), &headers)
}

async fn single(State(oauth): State<Arc<OAuth>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let settings = oauth.settings();
    let endpoint = Endpoint::from_path(&format!("/mcp/{name}"));
    match endpoint.filter(|endpoint| settings.verdict_for_strangers(endpoint) == StrangerVerdict::Exists) {
        Some(endpoint) => document(CARD, &card(settings, &endpoint), &headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn catalog(State(oauth): State<Arc<OAuth>>, headers: HeaderMap) -> Response {
    let settings = oauth.settings();
    let named = settings.backends.all().into_iter();
    let single = named.map(|id| Endpoint { binding: Binding::Mcp, target: Target::Backend(id) });
    let told = [Endpoint::MERGED].into_iter().chain(single);
    let told = told.filter(|endpoint| settings.verdict_for_strangers(endpoint) == StrangerVerdict::Exists);
    let entries: Vec<Value> = told.map(|one| entry(settings, &one)).collect();
    document(CATALOG, &json!({ "specVersion": "1.0", "entries": entries }), &headers)
}

/// An entry of the catalog (AI Catalog, discovery of Server Cards).
fn entry(settings: &OAuthSettings, endpoint: &Endpoint) -> Value {
    json!({
        "identifier": format!("urn:air:{}:mcp:{}", host(settings), name(endpoint)),
        "type": CARD,
        "url": format!("{}/server-card", settings.resource(endpoint)),
    })
}

/// The card of an endpoint. Its version is the gateway's. After the login, the endpoint of a single server gives that
/// server's own version instead; a card is advisory (discovery, consistency with runtime behavior).
fn card(settings: &OAuthSettings, endpoint: &Endpoint) -> Value {
    let (title, description) = match &endpoint.target {
        Target::Merged => ("Lockkeeper".to_owned(), "The MCP servers of this gateway, behind one login".to_owned()),
        Target::Backend(id) => (format!("Lockkeeper: {id}"), format!("`{id}` at this gateway")),
    };
    let sse = Endpoint { binding: Binding::Sse, ..endpoint.clone() };
    json!({
        "$schema": SCHEMA,
        "name": format!("{}/{}", reversed(&host(settings)), name(endpoint)),
        "version": VERSION,
        "title": title,
        "description": description,
        "websiteUrl": format!("{}/", settings.issuer),
        "remotes": [
            {
                "type": "streamable-http",
                "url": settings.resource(endpoint),
                "supportedProtocolVersions": Revision::ALL.map(Revision::as_str),
            },
            {
                "type": "sse",
                "url": settings.resource(&sse),
                "supportedProtocolVersions": [Revision::V2024_11_05.as_str()],
            },
        ],
    })
}

fn name(endpoint: &Endpoint) -> &str {
    match &endpoint.target {
        Target::Merged => "lockkeeper",
        Target::Backend(id) => id.as_str(),
    }
}

/// Host of the public URL, limited to characters that a name may have.
fn host(settings: &OAuthSettings) -> String {
    let (origin, _) = settings.split_issuer();
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-');
    host.chars().filter(is_plain).collect()
}

/// Reverses the parts of a host name, for use as a namespace; an IPv4 address stays as it is.
fn reversed(host: &str) -> String {
    if host.split('.').all(|part| part.parse::<u8>().is_ok()) {
        return host.to_owned();
    }
    host.split('.').rev().collect::<Vec<_>>().join(".")
}

/// Response with a public, cacheable document (discovery, caching).
fn document(kind: &'static str, value: &Value, headers: &HeaderMap) -> Response {
    let text = value.to_string();
    let tag = format!("\"{}\"", Digest::sha256(&text).short_hex(8));
    let cache = [(header::CACHE_CONTROL, "public, max-age=3600".to_owned()), (header::ETAG, tag.clone())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, cache).into_response();
    }
    (cache, [(header::CONTENT_TYPE, kind)], text).into_response()
}
