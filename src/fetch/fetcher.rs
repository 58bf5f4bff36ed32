//! Sends one request: resolves once, connects to a checked address, reads within the bounds.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::Response;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use url::Host;

use super::{
    connector::ClientError,
    destination::{Encryption, FetchDestination, NameLookup, Reach},
    error::{FetchError, ProxyFailure},
    exchange::{BodyBound, RequestForm, exchange, head},
    network::{Network, NetworkStream, SystemNetwork},
    proxied_network::ProxiedNetwork,
    request::FetchRequest,
    tls::{self, TlsSetupError},
};
use crate::model::{EgressNames, EgressPolicy, EgressProxy, NetworkSpec, ProxyChoice};

/// Maximum time to look up a name.
pub(super) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The next address is also tried after this time (RFC 8305 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Maximum number of addresses to try.
const MAX_ADDRESSES: usize = 6;
/// Maximum number of requests in progress.
const MAX_REQUESTS: usize = 64;

/// Rules for one kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRules {
    pub reach: Reach,
    /// Maximum size of the response body in bytes, counted on arrival.
    pub max_body: usize,
    /// Maximum time for everything, from the look-up of the name to the last byte of the body.
    pub deadline: Duration,
}

/// Sends requests to URLs chosen by strangers. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    pub(super) network: Arc<dyn Network>,
    tls: TlsConnector,
    requests: Arc<Semaphore>,
    pub(super) names: EgressNames,
}

impl Fetcher {
    /// Uses the network of the system, as configured by the operator, and trusts the authorities of the system.
    ///
    /// # Errors
    ///
    /// If those cannot be read.
    pub fn system(egress: &EgressPolicy) -> Result<Self, TlsSetupError> {
        let direct = Arc::new(SystemNetwork::default());
        let network: Arc<dyn Network> = match &egress.proxy {
            Some(proxy) => Arc::new(ProxiedNetwork::new(proxy.clone(), direct)),
            None => direct,
        };
        Ok(Self::new(network, tls::client_config(&NetworkSpec::default())?).with_names(egress.names))
    }

    /// Uses this network, with the certificate checks of `tls`.
    pub fn new(network: Arc<dyn Network>, tls: ClientConfig) -> Self {
        let requests = Arc::new(Semaphore::new(MAX_REQUESTS));
        Self { network, tls: TlsConnector::from(Arc::new(tls)), requests, names: EgressNames::Resolved }
    }

    /// The same, with names looked up in this way.
    #[must_use]
    pub fn with_names(self, names: EgressNames) -> Self {
        Self { names, ..self }
    }

    /// The same with the settings of one server: its certificates, and its proxy for all addresses, which are still
    /// checked.
    ///
    /// # Errors
    ///
    /// If these cannot be used.
    pub fn with_network(&self, network: &NetworkSpec) -> Result<Self, ClientError> {
        let tls = TlsConnector::from(Arc::new(tls::client_config(network)?));
        let network: Arc<dyn Network> = match &network.proxy {
            None => Arc::clone(&self.network),
            Some(ProxyChoice::Direct) => Arc::new(SystemNetwork::default()),
            Some(ProxyChoice::Through(url)) => {
                let proxy = EgressProxy::parse(url.expose()).map_err(|_| ClientError::Proxy("proxy"))?;
                Arc::new(ProxiedNetwork::for_all(proxy, Arc::new(SystemNetwork::default())))
            }
        };
        Ok(Self { network, tls, requests: Arc::clone(&self.requests), names: self.names })
    }

    /// Sends a request; returns the response of any status.
    ///
    /// # Errors
    ///
    /// See [`FetchError`]; [`FetchError::Refused`] comes before anything is sent.
    pub async fn send(&self, request: FetchRequest, rules: &FetchRules) -> Result<Response<Bytes>, FetchError> {
        let _permit = self.requests.try_acquire().map_err(|_| FetchError::Busy)?;
        let destination = FetchDestination::of(&request.url, &rules.reach, self.names)?;
        let body = BodyBound::Whole(rules.max_body);
        let exchange = async {
            let stream = self.open(&destination).await?;
            match destination.encryption {
                Encryption::None => exchange(TokioIo::new(stream), head(request, &RequestForm::Path)?, body).await,
                Encryption::Tls => {
                    let stream = self.secure(stream, &destination).await?;
                    exchange(TokioIo::new(stream), head(request, &RequestForm::Path)?, body).await
                }
            }
        };
        // boxed, so that a caller's future need not hold a whole HTTP client
        timeout(rules.deadline, Box::pin(exchange)).await.map_err(|_| FetchError::TooSlow(rules.deadline))?
    }

    /// A connection to the host.
    async fn open(&self, destination: &FetchDestination) -> Result<Box<dyn NetworkStream>, FetchError> {
        let (host, port) = (&destination.host, destination.port);
        match (host, destination.lookup) {
            (Host::Domain(name), NameLookup::Proxy) => self.connect_by_name(name, port).await,
            (Host::Domain(name), NameLookup::GatewayThenProxy) => match self.addresses(destination).await {
                Err(FetchError::Unresolved(_)) => self.connect_by_name(name, port).await,
                addresses => self.connect(&addresses?, port).await,
            },
            _ => self.connect(&self.addresses(destination).await?, port).await,
        }
    }

    async fn connect_by_name(&self, name: &str, port: u16) -> Result<Box<dyn NetworkStream>, FetchError> {
        let connecting = timeout(CONNECT_TIMEOUT, self.network.connect_by_name(name, port)).await;
        connecting.map_err(|_| silent())?.map_err(|error| unreachable(&error))
    }

    /// The addresses of the host, all of them allowed. The name is not looked up again, so an answer that changes (DNS
    /// rebinding) has no effect.
    async fn addresses(&self, destination: &FetchDestination) -> Result<Vec<IpAddr>, FetchError> {
        let addresses = match &destination.host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => {
                let found = timeout(LOOKUP_TIMEOUT, self.network.resolve(name)).await;
                let found = found.map_err(|_| FetchError::Unresolved(format!("no answer after {LOOKUP_TIMEOUT:?}")))?;
                found.map_err(|error| FetchError::Unresolved(error.to_string()))?
            }
        };
        destination.check(&addresses)?;
        Ok(addresses)
    }

    /// Connects to the first address that answers; each gets a head start of 250 ms.
    async fn connect(&self, addresses: &[IpAddr], port: u16) -> Result<Box<dyn NetworkStream>, FetchError> {
        let attempts = addresses.iter().take(MAX_ADDRESSES).zip(0_u32..).map(|(address, number)| async move {
            sleep(NEXT_ADDRESS_AFTER * number).await;
            self.network.connect(SocketAddr::new(*address, port)).await
        });
        let mut attempts: FuturesUnordered<_> = attempts.collect();
        let first = async {
            let mut failure = FetchError::Unresolved("none".to_owned());
            while let Some(outcome) = attempts.next().await {
                match outcome {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failure = unreachable(&error),
                }
            }
            Err(failure)
        };
        timeout(CONNECT_TIMEOUT, first).await.map_err(|_| silent())?
    }

    /// TLS with the name of the URL, for any connected address.
    async fn secure(
        &self,
        stream: Box<dyn NetworkStream>,
        destination: &FetchDestination,
    ) -> Result<impl NetworkStream + use<>, FetchError> {
        let name = match &destination.host {
            Host::Domain(name) => ServerName::try_from(name.clone()),
            Host::Ipv4(address) => Ok(ServerName::IpAddress(IpAddr::V4(*address).into())),
            Host::Ipv6(address) => Ok(ServerName::IpAddress(IpAddr::V6(*address).into())),
        };
        let name = name.map_err(|_| FetchError::Unreachable("no certificate can have its name".to_owned()))?;
        let secured = self.tls.connect(name, stream).await;
        secured.map_err(|error| FetchError::Unreachable(format!("TLS failed ({error})")))
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

fn silent() -> FetchError {
    FetchError::Unreachable(format!("no connection after {CONNECT_TIMEOUT:?}"))
}

/// The failure of a connection: the proxy's, a missing route, or the host's.
fn unreachable(error: &io::Error) -> FetchError {
    let proxy = error.get_ref().and_then(|cause| cause.downcast_ref::<ProxyFailure>());
    match (proxy, error.kind()) {
        (Some(failure), _) => FetchError::Proxy(failure.clone()),
        (None, io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
            FetchError::NoRoute(error.to_string())
        }
        (None, _) => FetchError::Unreachable(error.to_string()),
    }
}
