//! Requests through a proxy of the operator: the guard holds as without one.

use std::{io, net::IpAddr, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use lockkeeper::{
    fetch::{FetchError, FetchRequest, Fetcher, Network, NetworkStream, ProxiedNetwork, ProxyFailure, RefusedUrl},
    model::{EgressNames, EgressProxy},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional, duplex},
    task::JoinSet,
};
use url::Url;

use super::rules;
use crate::support::internet::Internet;

/// An inner network whose only way out is a proxy at 10.0.0.9.
#[derive(Clone)]
struct Inside(Arc<Inner>);

struct Inner {
    internet: Internet,
    /// The answer to `CONNECT`.
    answer: &'static str,
    /// What the proxy is asked.
    asked: Mutex<Vec<String>>,
    /// Connections past the proxy.
    direct: Mutex<Vec<SocketAddr>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Inside {
    fn new(answer: &'static str) -> Self {
        let internet = Internet::new();
        internet.name("a.example", &[&["1.1.1.1"]]);
        internet.name("proxy.inside", &[&["10.0.0.9"]]);
        internet.name("inside.example", &[&["10.0.0.1"]]);
        internet.host("1.1.1.1", |_| "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned());
        let (asked, direct, tasks) = Default::default();
        Self(Arc::new(Inner { internet, answer, asked, direct, tasks }))
    }

    async fn get(&self, url: &str, proxy: &str) -> Result<u16, FetchError> {
        self.get_with(EgressNames::Resolved, url, proxy).await
    }

    async fn get_with(&self, names: EgressNames, url: &str, proxy: &str) -> Result<u16, FetchError> {
        let network = ProxiedNetwork::new(EgressProxy::parse(proxy).unwrap(), Arc::new(self.clone()));
        let fetcher: Fetcher = self.0.internet.fetcher_over(Arc::new(network)).with_names(names);
        let request = FetchRequest::get(Url::parse(url).unwrap());
        Ok(fetcher.send(request, &rules()).await?.status().as_u16())
    }

    /// The proxy: it connects to what it is asked for.
    async fn serve(self, mut stream: impl NetworkStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let request = String::from_utf8(request).unwrap();
        let target = request.split(' ').nth(1).unwrap();
        let target = match target.parse() {
            Ok(address) => address,
            // the proxy has names of its own
            Err(_) => SocketAddr::from(([1, 1, 1, 1], 443)),
        };
        self.0.asked.lock().push(request);
        stream.write_all(self.0.answer.as_bytes()).await.unwrap();
        if self.0.answer.starts_with("HTTP/1.1 200") {
            let mut host = self.0.internet.connect(target).await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut host).await;
        }
    }
}

#[async_trait]
impl Network for Inside {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.internet.resolve(host).await
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        if address != "10.0.0.9:3128".parse().unwrap() {
            self.0.direct.lock().push(address);
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let (near, far) = duplex(64 * 1024);
        self.0.tasks.lock().spawn(self.clone().serve(far));
        Ok(Box::new(near))
    }
}

const GOOD: &str = "HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n";

#[tokio::test]
async fn oa_047_a_proxy_is_asked_for_the_address_that_was_checked() {
    let inside = Inside::new(GOOD);
    assert_eq!(inside.get("https://a.example/x", "http://proxy.inside:3128").await, Ok(200));
    assert_eq!(*inside.0.asked.lock(), ["CONNECT 1.1.1.1:443 HTTP/1.1\r\nHost: 1.1.1.1:443\r\n\r\n"]);
    assert_eq!(*inside.0.direct.lock(), []);
    // TLS goes through to the host, with the name of the URL
    let seen = inside.0.internet.seen();
    assert!(seen.requests[0].contains("host: a.example\r\n"), "{}", seen.requests[0]);
    assert_eq!(inside.get("https://a.example/x", "http://ann:s3cret@10.0.0.9:3128").await, Ok(200));
    let asked = inside.0.asked.lock()[1].clone();
    assert!(asked.contains("\r\nProxy-Authorization: Basic YW5uOnMzY3JldA==\r\n"), "{asked}");
}

#[tokio::test]
async fn n_032_a_proxy_is_asked_for_no_private_address() {
    let inside = Inside::new(GOOD);
    for url in ["https://inside.example/", "https://10.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://127.0.0.1/"] {
        let refused = inside.get(url, "http://proxy.inside:3128").await;
        assert_eq!(refused, Err(FetchError::Refused(RefusedUrl::Address)), "{url}");
    }
    assert_eq!((inside.0.asked.lock().len(), inside.0.direct.lock().len()), (0, 0));
}

#[tokio::test]
async fn n_034_a_name_that_changes_its_address_changes_nothing_behind_a_proxy() {
    let inside = Inside::new(GOOD);
    inside.0.internet.name("a.example", &[&["1.1.1.1"], &["10.0.0.1"]]);
    assert_eq!(inside.get("https://a.example/", "http://proxy.inside:3128").await, Ok(200));
    assert!(inside.0.asked.lock()[0].starts_with("CONNECT 1.1.1.1:443 "));
}

#[tokio::test]
async fn oa_047_a_proxy_that_refuses_is_a_failure_and_nothing_goes_past_it() {
    for (answer, reason) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", ProxyFailure::Refused(407)),
        ("SSH-2.0-OpenSSH\r\n\r\n", ProxyFailure::NotHttp),
        ("HTTP/1.1 2\u{fc}0 OK\r\n\r\n", ProxyFailure::NotHttp),
    ] {
        let inside = Inside::new(answer);
        let failed = inside.get("https://a.example/", "http://proxy.inside:3128").await;
        assert_eq!(failed, Err(FetchError::Proxy(reason)));
        assert_eq!(*inside.0.direct.lock(), []);
    }
    let inside = Inside::new(GOOD);
    let failed = inside.get("https://a.example/", "http://nowhere.inside:3128").await;
    assert!(matches!(failed, Err(FetchError::Proxy(ProxyFailure::Unreachable(_)))), "{failed:?}");
    assert_eq!(*inside.0.direct.lock(), []);
}

#[tokio::test]
async fn oa_148_a_proxy_that_resolves_gets_names_and_only_public_ones() {
    let inside = Inside::new(GOOD);
    inside.0.internet.name("claude.ai", &[]);
    let proxy = "http://10.0.0.9:3128";
    assert_eq!(inside.get_with(EgressNames::ByProxy, "https://claude.ai/x", proxy).await, Ok(200));
    assert_eq!(*inside.0.asked.lock(), ["CONNECT claude.ai:443 HTTP/1.1\r\nHost: claude.ai:443\r\n\r\n"]);
    assert_eq!(inside.0.internet.seen().lookups, [""; 0]);
    for url in [
        "https://inside.corp/",
        "https://localhost/",
        "https://metadata.google.internal/",
        "https://1.0.0.10.in-addr.arpa/",
        "https://10.0.0.1/",
        "https://1.1.1.1/",
    ] {
        let refused = inside.get_with(EgressNames::ByProxy, url, proxy).await;
        assert_eq!(refused, Err(FetchError::Refused(RefusedUrl::Name)), "{url}");
    }
    let refused = inside.get_with(EgressNames::ByProxy, "https://claude.ai:8443/", proxy).await;
    assert_eq!(refused, Err(FetchError::Refused(RefusedUrl::Port(8443))));
    assert_eq!((inside.0.asked.lock().len(), inside.0.direct.lock().len()), (1, 0));
}

#[tokio::test]
async fn oa_148_names_are_not_handed_to_the_proxy_because_they_are_not_found() {
    let inside = Inside::new(GOOD);
    let failed = inside.get("https://unknown.example/", "http://10.0.0.9:3128").await;
    assert!(matches!(failed, Err(FetchError::Unresolved(_))), "{failed:?}");
    assert_eq!(inside.0.asked.lock().len(), 0);
}
