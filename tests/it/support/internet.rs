//! A small internet in memory: names, addresses, and hosts behind them that speak TLS with an authority of their own.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use lockkeeper::fetch::{Fetcher, Network, NetworkStream};
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::aws_lc_rs, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    task::JoinSet,
    time::{Duration, sleep},
};
use tokio_rustls::TlsAcceptor;

/// Names, addresses and hosts. Nothing leaves the process. Clones are the same internet.
#[derive(Clone)]
pub(crate) struct Internet(Arc<Inner>);

struct Inner {
    authority: CertifiedIssuer<'static, KeyPair>,
    /// What each look-up of a name finds; the last answer stays.
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    hosts: Mutex<HashMap<IpAddr, Host>>,
    seen: Mutex<Seen>,
    tasks: Mutex<JoinSet<()>>,
    /// True if there is no route to any host.
    is_cut: AtomicBool,
}

/// What happened, in order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) lookups: Vec<String>,
    pub(crate) connections: Vec<SocketAddr>,
    /// The text of each request.
    pub(crate) requests: Vec<String>,
}

/// Behaviour of a host.
#[derive(Clone)]
enum Host {
    /// Answers each request with a response, written as it is.
    Answers(Arc<dyn Fn(&str) -> String + Send + Sync>),
    /// Calls this, begins a response, and goes on with one byte a second.
    Drips(fn()),
    /// Accepts no connection and refuses none.
    Silent,
}

impl Internet {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let (names, hosts, seen, tasks) = <(Mutex<_>, Mutex<_>, Mutex<_>, Mutex<_>)>::default();
        Self(Arc::new(Inner { authority, names, hosts, seen, tasks, is_cut: AtomicBool::new(false) }))
    }

    /// Sends requests here, and trusts the authority of this internet alone.
    pub(crate) fn fetcher(&self) -> Fetcher {
        self.fetcher_trusting(self)
    }

    /// Sends requests here, and trusts the authority of another internet.
    pub(crate) fn fetcher_trusting(&self, trusted: &Self) -> Fetcher {
        Self::fetcher_of(Arc::new(self.clone()), trusted)
    }

    /// Sends requests over another network, and trusts the authority of this internet.
    pub(crate) fn fetcher_over(&self, network: Arc<dyn Network>) -> Fetcher {
        Self::fetcher_of(network, self)
    }

    fn fetcher_of(network: Arc<dyn Network>, trusted: &Self) -> Fetcher {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.0.authority.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Fetcher::new(network, tls.with_root_certificates(roots).with_no_client_auth())
    }

    /// Gives a name these addresses, one answer for each look-up; the last one stays.
    pub(crate) fn name(&self, name: &str, answers: &[&[&str]]) {
        let answers = answers.iter().map(|answer| answer.iter().map(|address| address.parse().unwrap()).collect());
        self.0.names.lock().insert(name.to_owned(), answers.collect());
    }

    /// Puts a host at an address.
    pub(crate) fn host(&self, address: &str, answer: impl Fn(&str) -> String + Send + Sync + 'static) {
        self.0.hosts.lock().insert(address.parse().unwrap(), Host::Answers(Arc::new(answer)));
    }

    /// Puts a host that calls `first` before it answers, a byte a second.
    pub(crate) fn dripping_host(&self, address: &str, first: fn()) {
        self.0.hosts.lock().insert(address.parse().unwrap(), Host::Drips(first));
    }

    /// Removes a name.
    pub(crate) fn forget(&self, name: &str) {
        self.0.names.lock().remove(name);
    }

    /// Cuts off all hosts, or brings them back.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.0.is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(crate) fn silent_host(&self, address: &str) {
        self.0.hosts.lock().insert(address.parse().unwrap(), Host::Silent);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0.seen.lock().clone()
    }

    /// TLS with a certificate for every name that there is.
    fn tls(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = self.0.names.lock().keys().cloned().collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0.authority).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        TlsAcceptor::from(Arc::new(tls))
    }

    async fn serve(self, host: Host, stream: impl NetworkStream, is_tls: bool) {
        if !is_tls {
            return self.answer(host, stream).await;
        }
        // a client may refuse the certificate
        if let Ok(stream) = self.tls().accept(stream).await {
            self.answer(host, stream).await;
        }
    }

    async fn answer(&self, host: Host, mut stream: impl NetworkStream) {
        let mut request = Vec::new();
        while !is_whole(&request) {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let request = String::from_utf8(request).unwrap();
        let answer = match &host {
            Host::Answers(answer) => Some(answer(&request)),
            Host::Drips(_) | Host::Silent => None,
        };
        self.0.seen.lock().requests.push(request);
        if let Some(answer) = answer {
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            return;
        }
        if let Host::Drips(first) = host {
            first();
        }
        let mut next = "HTTP/1.1 200 OK\r\n\r\n{";
        while stream.write_all(next.as_bytes()).await.is_ok() && stream.flush().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
            next = " ";
        }
    }
}

#[async_trait]
impl Network for Internet {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.seen.lock().lookups.push(host.to_owned());
        let mut names = self.0.names.lock();
        let answers = names.get_mut(host).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn NetworkStream>> {
        if self.0.is_cut.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        self.0.seen.lock().connections.push(address);
        let host = self.0.hosts.lock().get(&address.ip()).cloned();
        match host {
            None => Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Host::Silent) => std::future::pending().await,
            Some(host) => {
                let (near, far) = duplex(64 * 1024);
                self.0.tasks.lock().spawn(self.clone().serve(host, far, address.port() == 443));
                Ok(Box::new(near))
            }
        }
    }

    fn has_route(&self, _: SocketAddr) -> bool {
        !self.0.is_cut.load(Ordering::Relaxed)
    }
}

/// True if all of the head, and of the announced body, is here.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    body.len() >= length
}

/// A response with a JSON body and further headers, each with its line end.
pub(crate) fn json_response(headers: &str, body: &serde_json::Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}
