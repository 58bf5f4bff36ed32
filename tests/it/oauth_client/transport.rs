//! The transport of a server, as far as it counts for its login.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Router, extract::Request, response::IntoResponse as _};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, StatusCode, header};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use lockkeeper::{
    fetch::{Fetcher, OpenClient},
    model::{AuthorizationSettings, EgressPolicy, NetworkSpec, ProxyChoice},
    oauth_client::{BearerChallenge, LoginError, LoginTransport, OAuthHttp, ResourceServer, discover},
    support::Secret,
};
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::http;

/// A site, and the headers of the requests that it got.
struct Site {
    origin: String,
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    serving: JoinSet<()>,
    listener: Option<TcpListener>,
}

impl Site {
    async fn new(scheme: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("{scheme}://{}", listener.local_addr().unwrap());
        Self { origin, seen: Arc::default(), serving: JoinSet::new(), listener: Some(listener) }
    }

    /// Serves documents at these paths, and 404 elsewhere; over TLS with this certificate.
    fn serve(&mut self, documents: &[(&'static str, serde_json::Value)], tls: Option<Arc<ServerConfig>>) {
        let (seen, documents) = (Arc::clone(&self.seen), documents.to_vec());
        let routes = Router::new().fallback(async move |request: Request| {
            let path = request.uri().path().to_owned();
            seen.lock().push((path.clone(), request.headers().clone()));
            match documents.iter().find(|(known, _)| *known == path) {
                Some((_, document)) => axum::Json(document.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        });
        let listener = self.listener.take().unwrap();
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (routes, tls) = (TowerToHyperService::new(routes.clone()), tls.clone());
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = match tls {
                        None => http.serve_connection(TokioIo::new(stream), routes).await,
                        Some(tls) => match TlsAcceptor::from(tls).accept(stream).await {
                            Ok(stream) => http.serve_connection(TokioIo::new(stream), routes).await,
                            Err(_) => return,
                        },
                    };
                });
            }
        });
    }

    fn url(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin)).unwrap()
    }

    fn seen(&self) -> Vec<(String, HeaderMap)> {
        self.seen.lock().clone()
    }
}

/// A server and its authorization server, at origins of their own.
async fn sites(scheme: &str, tls: Option<Arc<ServerConfig>>) -> (Site, Site) {
    let (mut server, mut authority) = (Site::new(scheme).await, Site::new(scheme).await);
    let at = authority.origin.clone();
    let resource = json!({ "resource": server.url(), "authorization_servers": [at] });
    let metadata = json!({
        "issuer": at, "authorization_endpoint": format!("{at}/authorize"), "token_endpoint": format!("{at}/token"),
        "code_challenge_methods_supported": ["S256"],
    });
    server.serve(&[("/.well-known/oauth-protected-resource/mcp", resource)], tls.clone());
    authority.serve(&[("/.well-known/oauth-authorization-server", metadata)], tls);
    (server, authority)
}

async fn find(http: OAuthHttp, server: &Url) -> Result<String, LoginError> {
    let server = ResourceServer { url: server, settings: &AuthorizationSettings::default() };
    discover(&http, server, &BearerChallenge::default()).await.map(|found| found.server.issuer)
}

fn secrets(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

#[tokio::test]
async fn up_029_headers_go_to_the_origin_of_the_server_alone() {
    let (server, authority) = sites("http", None).await;
    let (url, headers) = (server.url(), secrets(&[("CF-Access-Client-Id", "id"), ("Authorization", "Bearer own")]));
    let transport = LoginTransport { server: &url, issuer: None, headers: &headers, network: None };
    find(http().of_server(transport).unwrap(), &url).await.unwrap();
    let (own, other) = (server.seen(), authority.seen());
    assert!(!own.is_empty() && !other.is_empty());
    assert!(own.iter().all(|(_, headers)| headers["cf-access-client-id"] == "id"), "{own:?}");
    assert!(other.iter().all(|(_, headers)| !headers.contains_key("cf-access-client-id")), "{other:?}");
    let all = own.iter().chain(&other);
    assert!(all.clone().all(|(_, headers)| !headers.contains_key(header::AUTHORIZATION)), "{own:?} {other:?}");
}

#[tokio::test]
async fn up_029_authorities_of_a_server_count_for_it_and_for_the_configured_issuer_alone() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(authority.der()));
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private).unwrap();
    let (server, issuer) = sites("https", Some(Arc::new(tls))).await;
    let url = server.url();
    let network = NetworkSpec { authorities: Some(pem), ..NetworkSpec::default() };
    let headers = BTreeMap::new();
    let with = |issuer: Option<&str>, network: Option<&NetworkSpec>| {
        http().of_server(LoginTransport { server: &url, issuer, headers: &headers, network }).unwrap()
    };
    let error = find(with(None, None), &url).await.unwrap_err().to_string();
    assert!(error.contains(&server.origin), "{error}");
    let error = find(with(None, Some(&network)), &url).await.unwrap_err().to_string();
    assert!(error.contains(&issuer.origin), "the server is trusted, and what it names is not: {error}");
    assert_eq!(find(with(Some(&issuer.origin), Some(&network)), &url).await.as_deref(), Ok(issuer.origin.as_str()));
}

#[tokio::test]
async fn up_029_the_proxy_of_a_server_carries_all_requests_of_its_login() {
    let (server, _authority) = sites("http", None).await;
    let url = server.url();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = ProxyChoice::Through(Secret::new(format!("http://{}", proxy.local_addr().unwrap())));
    let network = NetworkSpec { proxy: Some(through), ..NetworkSpec::default() };
    let headers = BTreeMap::new();
    let transport = LoginTransport { server: &url, issuer: None, headers: &headers, network: Some(&network) };
    let fetcher = Fetcher::system(&EgressPolicy::default()).unwrap();
    for (login, target) in [
        (OAuthHttp::open(OpenClient::direct().unwrap()), format!("GET {}/.well-known/", server.origin)),
        (OAuthHttp::guarded(fetcher, &url), format!("CONNECT {} ", server.origin.trim_start_matches("http://"))),
    ] {
        let login = login.of_server(transport).unwrap();
        let carried = async {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        };
        let head = tokio::select! {
            head = carried => head,
            outcome = find(login, &url) => panic!("without the proxy: {outcome:?}"),
        };
        assert!(head.starts_with(&target), "{target}: {head}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn up_029_a_refusal_for_people_or_of_another_scheme_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
    let routes = Router::new()
        .route(
            "/mcp",
            axum::routing::any(|| async { (StatusCode::FOUND, [(header::LOCATION, "https://sso.example/login")]) }),
        )
        .route(
            "/basic",
            axum::routing::any(|| async {
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"x\"")])
            }),
        );
    let mut serving = JoinSet::new();
    serving.spawn(axum::serve(listener, routes).into_future());
    let error = http().challenge(&url).await.unwrap_err().to_string();
    assert!(error.contains("sends programs to a page for people at sso.example"), "{error}");
    let basic = url.join("/basic").unwrap();
    let challenge = http().challenge(&basic).await.unwrap();
    let server = ResourceServer { url: &basic, settings: &AuthorizationSettings::default() };
    let error = discover(&http(), server, &challenge).await.unwrap_err().to_string();
    assert!(error.contains("asks for `Basic` credentials"), "{error}");
}
