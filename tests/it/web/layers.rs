//! Refusals before the handlers, and headers of every response.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Extension},
    response::Html,
    routing::{get, post},
};
use http::{Request, StatusCode, Version};
use http_body_util::BodyExt as _;
use lockkeeper::{
    http::{Bound, ClientIp, GuardSettings},
    model::{AllowedOrigin, AllowedSites, LimitsConfig, RequestPlace},
    support::{Live, SeededRandom, log_context::WithRequestFields},
};
use tower::ServiceExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use url::Url;

use crate::support::{http::guarded, log::Lines};

type Answer = axum::response::Response;

fn settings() -> GuardSettings {
    GuardSettings::new(Url::parse("https://mcp.example.com").unwrap(), Bound::Network, Arc::new(SeededRandom::new(1)))
}

fn sites(hosts: &[&str], origins: &[&str]) -> Live<AllowedSites> {
    let hosts = hosts.iter().map(|&name| name.to_owned()).collect();
    let origins = origins.iter().map(|text| AllowedOrigin::parse(text).unwrap()).collect();
    Live::new(AllowedSites { hosts, origins })
}

async fn boom() {
    std::env::args().nth(999).map(drop).expect("the secret inside");
}

fn routes() -> Router {
    Router::new()
        .route("/mcp", post(async |body: Bytes| body.len().to_string()).get(async || "ok"))
        .route("/sse", get(async || "ok"))
        .route("/healthz", get(async || "ok"))
        .route("/page", get(async || Html("<p>hello")).post(async |body: Bytes| body.len().to_string()))
        .route("/ip", get(async |Extension(ClientIp(ip)): Extension<ClientIp>| ip.to_string()))
        .route("/boom", get(boom))
}

async fn ask(settings: &GuardSettings, mut request: http::request::Builder) -> Answer {
    if request.headers_ref().is_some_and(|headers| !headers.contains_key("host")) {
        request = request.header("host", "mcp.example.com");
    }
    bare(settings, request).await
}

/// Sends a request as it is.
async fn bare(settings: &GuardSettings, request: http::request::Builder) -> Answer {
    guarded(routes(), settings).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn text(answer: Answer) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn oa_138_a_foreign_host_is_misdirected() {
    let status = async |settings: &GuardSettings, path: &str, host: &str| {
        ask(settings, Request::get(path).header("host", host)).await.status()
    };
    let public = settings();
    assert_eq!(status(&public, "/mcp", "mcp.example.com").await, StatusCode::OK);
    assert_eq!(status(&public, "/mcp", "MCP.example.com:443").await, StatusCode::OK);
    for host in ["evil.example", "localhost", "127.0.0.1:8080", "mcp.example.com.evil.example", ""] {
        assert_eq!(status(&public, "/mcp", host).await, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let local = GuardSettings { bound: Bound::Loopback, ..settings() };
    for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
        assert_eq!(status(&local, "/mcp", host).await, StatusCode::OK, "{host}");
    }
    assert_eq!(status(&local, "/mcp", "rebound.evil.example:8080").await, StatusCode::MISDIRECTED_REQUEST);
    let named = GuardSettings { sites: sites(&["Gateway.internal"], &[]), ..settings() };
    assert_eq!(status(&named, "/mcp", "gateway.internal:80").await, StatusCode::OK);
}

// RFC 9112 3.2
#[tokio::test]
async fn a_request_says_once_which_host_it_is_for() {
    let settings = settings();
    let status = async |request: http::request::Builder| bare(&settings, request).await.status();
    let to = |version| Request::get("/mcp").version(version);
    assert_eq!(status(to(Version::HTTP_11)).await, StatusCode::BAD_REQUEST);
    assert_eq!(status(to(Version::HTTP_10)).await, StatusCode::OK);
    for version in [Version::HTTP_10, Version::HTTP_11] {
        for second in ["mcp.example.com", "evil.example"] {
            let twice = to(version).header("host", "mcp.example.com").header("host", second);
            assert_eq!(status(twice).await, StatusCode::BAD_REQUEST, "{second}");
        }
        for wrong in ["ann@mcp.example.com", "mcp.example.com/x", "mcp example"] {
            assert_eq!(status(to(version).header("host", wrong)).await, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
    // the absolute form of a target takes precedence over the header
    let absolute = |target: &str, host: &str| Request::get(target.to_owned()).header("host", host.to_owned());
    let own = "https://mcp.example.com/mcp";
    assert_eq!(status(absolute(own, "mcp.example.com")).await, StatusCode::OK);
    assert_eq!(status(absolute("https://evil.example/mcp", "mcp.example.com")).await, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(status(Request::get(own).version(Version::HTTP_2)).await, StatusCode::OK);
    assert_eq!(
        status(Request::get("https://evil.example/mcp").version(Version::HTTP_2)).await,
        StatusCode::MISDIRECTED_REQUEST
    );
    assert!(text(bare(&settings, to(Version::HTTP_11)).await).await.contains("no Host header"));
}

#[tokio::test]
async fn a_probe_may_come_by_any_well_formed_name() {
    let host = async |path: &str, host: &str| ask(&settings(), Request::get(path).header("host", host)).await.status();
    for name in ["10.1.2.3:8080", "localhost:8080", "lockkeeper", "lockkeeper.default.svc.cluster.local:80", "[::1]"] {
        assert_eq!(host("/healthz", name).await, StatusCode::OK, "{name}");
        assert_eq!(host("/readyz", name).await, StatusCode::NOT_FOUND, "{name}: not refused");
        assert_eq!(host("/page", name).await, StatusCode::MISDIRECTED_REQUEST, "{name}");
    }
    for malformed in ["ann@lockkeeper", "lockkeeper/x", "lock keeper"] {
        assert_eq!(host("/healthz", malformed).await, StatusCode::BAD_REQUEST, "{malformed}");
    }
    assert_eq!(host("/metrics", "10.1.2.3:8080").await, StatusCode::NOT_FOUND, "not refused");
    assert_eq!(host("/metrics", "rebound.evil.example").await, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn a_foreign_host_is_told_the_line_that_allows_it() {
    let told = text(ask(&settings(), Request::get("/mcp").header("host", "gateway.internal:8080")).await).await;
    assert!(told.contains("allowed_hosts = [\\\"gateway.internal\\\"]"), "{told}");
    let long = format!("{}.example", "a".repeat(400));
    let told = text(ask(&settings(), Request::get("/mcp").header("host", long)).await).await;
    assert!(told.len() < 300 && !told.contains("aaa"), "{told}");
}

// N-7
#[tokio::test]
async fn n_007_pages_of_other_sites_may_not_call_the_mcp_endpoints() {
    let configured = GuardSettings { sites: sites(&[], &["https://tool.example.org"]), ..settings() };
    let status =
        async |path: &str, origin: &str| ask(&configured, Request::get(path).header("origin", origin)).await.status();
    for origin in ["https://mcp.example.com", "https://tool.example.org", "http://localhost:6274"] {
        assert_eq!(status("/mcp", origin).await, StatusCode::OK, "{origin}");
    }
    for path in ["/mcp", "/mcp/git", "/sse", "/messages", "/ws"] {
        assert_eq!(status(path, "https://evil.example").await, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(status(path, "null").await, StatusCode::FORBIDDEN, "{path}");
    }
    // the other routes handle CORS themselves
    assert_eq!(status("/page", "https://evil.example").await, StatusCode::OK);
}

#[tokio::test]
async fn a_body_may_not_be_too_large() {
    let most = LimitsConfig::ALLOWED_BODY;
    let above = (most + 1).to_string();
    let settings = GuardSettings {
        limits: Live::new(LimitsConfig { request_body: most, ..LimitsConfig::default() }),
        ..settings()
    };
    let send = async |body: Body, announced: Option<&str>| {
        let mut request = Request::post("/mcp").header("host", "mcp.example.com");
        if let Some(length) = announced {
            request = request.header("content-length", length);
        }
        guarded(routes(), &settings).oneshot(request.body(body).unwrap()).await.unwrap()
    };
    assert_eq!(text(send(Body::from(vec![b'x'; most]), None).await).await, most.to_string());
    let announced = send(Body::empty(), Some(&above)).await;
    assert_eq!(announced.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let refusal: serde_json::Value = serde_json::from_str(&text(announced).await).unwrap();
    assert_eq!((&refusal["jsonrpc"], &refusal["id"]), (&"2.0".into(), &serde_json::Value::Null));
    assert!(
        refusal["error"]["message"].as_str().unwrap().contains(&format!("larger than the {most} bytes")),
        "{refusal}"
    );
    // another route refuses in its own form, and reads no further
    let page = Request::post("/page")
        .header("host", "mcp.example.com")
        .header("content-length", &above)
        .body(Body::from(vec![b'x'; most + 1]))
        .unwrap();
    let page = guarded(routes(), &settings).oneshot(page).await.unwrap();
    assert_eq!(page.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(!text(page).await.contains("jsonrpc"));
    let chunks = futures_util::stream::iter((0..3).map(move |_| Ok::<_, io::Error>(Bytes::from(vec![b'x'; most / 2]))));
    assert_eq!(send(Body::from_stream(chunks), None).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn large_messages_pass_up_to_the_limit() {
    let body = Body::from(vec![b'x'; 15 * 1024 * 1024]);
    let request = Request::post("/mcp").header("host", "mcp.example.com").body(body).unwrap();
    let answer = guarded(routes(), &settings()).oneshot(request).await.unwrap();
    assert_eq!(text(answer).await, (15 * 1024 * 1024).to_string());
}

#[tokio::test]
async fn a_panic_reveals_no_internals() {
    let answer = ask(&settings(), Request::get("/boom")).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(answer.headers().contains_key("x-request-id"));
    let body = text(answer).await;
    assert!(body.contains("server_error") && !body.contains("secret"), "{body}");
}

#[tokio::test]
async fn every_answer_has_a_request_id_of_its_own() {
    let app = guarded(routes(), &settings());
    let mut seen = Vec::new();
    for path in ["/mcp", "/nowhere", "/mcp"] {
        let request = Request::get(path)
            .header("host", "mcp.example.com")
            .header("x-request-id", "mine")
            .body(Body::empty())
            .unwrap();
        let answer = app.clone().oneshot(request).await.unwrap();
        seen.push(answer.headers()["x-request-id"].to_str().unwrap().to_owned());
    }
    assert!(seen.iter().all(|id| id.len() == 16 && id != "mine"), "{seen:?}");
    assert!(seen[0] != seen[2]);
}

#[tokio::test]
async fn oa_027_pages_have_security_headers_and_are_not_cached() {
    let headers = |answer: &Answer| {
        let mut lines: Vec<String> = answer
            .headers()
            .iter()
            .filter(|(name, _)| *name != "x-request-id")
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines.join("\n")
    };
    insta::assert_snapshot!(headers(&ask(&settings(), Request::get("/page")).await), @r"
    cache-control: no-store
    content-length: 8
    content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'
    content-type: text/html; charset=utf-8
    pragma: no-cache
    referrer-policy: no-referrer
    strict-transport-security: max-age=31536000
    x-content-type-options: nosniff
    x-frame-options: DENY
    ");
    insta::assert_snapshot!(headers(&ask(&settings(), Request::get("/mcp")).await), @r"
    content-length: 2
    content-type: text/plain; charset=utf-8
    strict-transport-security: max-age=31536000
    x-content-type-options: nosniff
    ");
}

#[tokio::test]
async fn oa_028_no_policy_keeps_a_form_from_the_redirect_to_the_app() {
    let answer = ask(&settings(), Request::get("/page")).await;
    assert!(!answer.headers()["content-security-policy"].to_str().unwrap().contains("form-action"));
}

#[tokio::test]
async fn oa_029_a_page_stays_connected_to_the_window_that_opened_it() {
    let answer = ask(&settings(), Request::get("/page")).await;
    assert!(!answer.headers().contains_key("cross-origin-opener-policy"));
}

#[tokio::test]
async fn oa_139_a_local_gateway_does_not_demand_https() {
    let local = GuardSettings { public_url: Url::parse("http://127.0.0.1:8080").unwrap(), ..settings() };
    let answer = ask(&local, Request::get("/page")).await;
    assert!(!answer.headers().contains_key("strict-transport-security"));
}

// one replica has found the client, here another trusted proxy of the operator; the header is that of its request there
#[tokio::test]
async fn oa_138_a_carried_request_comes_from_the_client_that_the_first_replica_found() {
    let settings = GuardSettings { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..settings() };
    let seen = async |place: RequestPlace| {
        let client: SocketAddr = "10.0.0.9:0".parse().unwrap();
        let request = Request::get("/ip").header("x-forwarded-for", "198.51.100.7").extension(ConnectInfo(client));
        text(ask(&settings, request.extension(place)).await).await
    };
    assert_eq!(seen(RequestPlace::Carried).await, "10.0.0.9");
    assert_eq!(seen(RequestPlace::Anywhere).await, "198.51.100.7");
}

#[tokio::test]
async fn only_a_trusted_proxy_may_say_where_a_request_came_from() {
    let settings = GuardSettings { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..settings() };
    let seen = async |peer: &str| {
        let peer: SocketAddr = peer.parse().unwrap();
        let request = Request::get("/ip").header("x-forwarded-for", "198.51.100.7").extension(ConnectInfo(peer));
        text(ask(&settings, request).await).await
    };
    assert_eq!(seen("10.0.0.1:4711").await, "198.51.100.7");
    assert_eq!(seen("203.0.113.1:4711").await, "203.0.113.1");
    assert_eq!(text(ask(&settings, Request::get("/ip")).await).await, "127.0.0.1");
}

// OA-123, N-118
#[tokio::test]
async fn n_118_the_query_never_reaches_the_log() {
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer()
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone());
    let subscriber = tracing_subscriber::registry().with(WithRequestFields::new(layer));
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, a thread without one could disable a log line for good: there are two, and earlier
    // decisions are made anew.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    ask(&settings(), Request::get("/sse?api_key=lkk_secret")).await;
    ask(&settings(), Request::get("/boom?api_key=lkk_secret")).await;
    tracing::callsite::rebuild_interest_cache();
    ask(&settings(), Request::get("/sse?api_key=lkk_secret")).await;
    ask(&settings(), Request::get("/boom?api_key=lkk_secret")).await;
    let log = lines.text();
    assert!(log.contains("path=\"/sse\"") && log.contains("request_id="), "{log}");
    assert!(!log.contains("lkk_secret"), "{log}");
}

#[tokio::test]
async fn the_requests_of_one_address_behind_a_proxy_are_bounded_while_their_answers_last() {
    let mut settings = settings();
    settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    settings.limits = Live::new(LimitsConfig { connections_per_address: 1, ..LimitsConfig::default() });
    let app = guarded(routes(), &settings);
    let send = async |peer: &str, client: &'static str| {
        let peer = ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1));
        let request =
            Request::get("/mcp").header("host", "mcp.example.com").header("x-forwarded-for", client).extension(peer);
        app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let first = send("10.0.0.1", "2001:db8::1").await;
    assert_eq!(first.status(), StatusCode::OK);
    let second = send("10.0.0.2", "2001:db8::2").await;
    assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS, "one /64, and the proxy does not matter");
    assert_eq!(second.headers()["retry-after"], "5");
    assert_eq!(send("10.0.0.1", "192.0.2.1").await.status(), StatusCode::OK);
    for _ in 0..3 {
        let direct = (send("192.0.2.9", "2001:db8::1").await, send("10.0.0.1", "10.0.0.7").await);
        assert_eq!((direct.0.status(), direct.1.status()), (StatusCode::OK, StatusCode::OK));
    }
    assert_eq!(text(first).await, "ok");
    assert_eq!(send("10.0.0.1", "2001:db8::2").await.status(), StatusCode::OK);
}
