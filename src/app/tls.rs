//! TLS toward clients, and the two sockets that come with it: the port without TLS, and the local socket.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use tokio::net::{TcpListener, UnixListener};

use super::{
    call_path::World,
    control::ControlFile,
    http_service::HttpService,
    local_socket::LocalSocket,
    module_settings::{LOCAL_CONNECTIONS, PLAIN_CONNECTIONS},
};
use crate::{
    config::{Config, files},
    fetch::OpenClient,
    listener::{self, ClientListener, Lifecycle, ListenerSettings},
    model::{CertificateSource, TlsSpec, status::CertificateStatus},
    storage::Storage,
    support::SealingKey,
    tls::{AuthorityDeps, CertificateKeeper, Certificates, PlainPort, server_config},
    vault::Vault,
    web,
};

/// Listening sockets of a gateway.
#[derive(Debug)]
pub struct Sockets {
    /// The socket for clients.
    pub main: TcpListener,
    /// The socket without TLS, if the service manager passed one.
    pub plain: Option<TcpListener>,
}

/// Everything for TLS toward clients.
pub(super) struct TlsPart {
    config: Arc<rustls::ServerConfig>,
    keeper: Arc<CertificateKeeper>,
    plain: Option<(TcpListener, PlainPort)>,
    local: (LocalSocket, UnixListener, PathBuf),
}

/// The base that TLS is built on.
pub(super) struct TlsDeps<'a> {
    pub(super) config: &'a Config,
    pub(super) storage: &'a Storage,
    pub(super) master: &'a SealingKey,
    pub(super) bound: SocketAddr,
    pub(super) world: &'a World,
}

/// The gateway cannot listen on the configured address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct CannotListen {
    pub address: SocketAddr,
    pub source: io::Error,
}

impl Sockets {
    /// Listens on the configured address.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        let main = bind(config.listen).await.map_err(|source| CannotListen { address: config.listen, source })?;
        Ok(Self { main, plain: None })
    }
}

/// Listens on `address`. If that is every IPv6 address and this machine has no IPv6, listens on every IPv4 address.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let Err(error) = &bound else { return bound };
    let has_no_ipv6 = matches!(error.raw_os_error(), Some(nix::libc::EAFNOSUPPORT | nix::libc::EADDRNOTAVAIL));
    if address.is_ipv6() && address.ip().is_unspecified() && has_no_ipv6 {
        return TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await;
    }
    bound
}

impl TlsPart {
    /// Reads the certificate, or prepares to order one, and opens the two other sockets. `None` without TLS.
    pub(super) async fn build(deps: TlsDeps<'_>, plain: Option<TcpListener>) -> anyhow::Result<Option<Self>> {
        let Some(spec) = &deps.config.tls else { return Ok(None) };
        let certificates = Arc::new(Certificates::default());
        let config = Arc::new(server_config(Arc::clone(&certificates)).context("TLS cannot be set up")?);
        let plain = match plain {
            Some(passed) => Some(passed),
            None => listen_plainly(spec).await,
        };
        let keeper = Arc::new(keeper(spec, &deps, plain.is_some(), &certificates)?);
        let public_url = deps.config.public_url(deps.bound);
        let port = PlainPort::new(certificates, public_url.as_str(), web::is_page);
        let path = files::control_socket(&deps.config.data_dir);
        let local = LocalSocket::listen(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        deps.world.tracker.spawn(Arc::clone(&keeper).run(deps.world.cancel.clone()));
        let plain = plain.map(|listener| (listener, port));
        Ok(Some(Self { config, keeper, plain, local: (local.0, local.1, path) }))
    }

    /// Returns a function that gives the state of the certificate, for the status.
    pub(super) fn status(&self) -> impl Fn() -> CertificateStatus + Send + Sync + use<> {
        let keeper = Arc::clone(&self.keeper);
        move || keeper.status()
    }

    /// Adds the local socket to the control file, for commands.
    pub(super) fn reached_by(&self, control: ControlFile) -> ControlFile {
        control.with_socket(self.local.2.clone())
    }

    /// Serves the two other sockets, until `lifecycle.drain`.
    async fn serve_beside(self, service: HttpService, settings: ListenerSettings, lifecycle: Lifecycle) {
        let Self { plain, local: (socket, local, _), .. } = self;
        let bounded = |connections| ListenerSettings { connections, ..settings.clone() };
        let plainly = async {
            if let Some((listener, port)) = plain {
                listener::serve(ClientListener::Tcp(listener), port, bounded(PLAIN_CONNECTIONS), lifecycle.clone())
                    .await;
            }
        };
        let locally =
            listener::serve(ClientListener::Local(local), service, bounded(LOCAL_CONNECTIONS), lifecycle.clone());
        tokio::join!(plainly, locally);
        drop(socket);
    }
}

/// Serves clients at `listener`, and with TLS also the two other sockets, until `lifecycle.drain`.
pub(super) async fn serve(
    tls: Option<TlsPart>,
    listener: TcpListener,
    service: HttpService,
    settings: ListenerSettings,
    lifecycle: Lifecycle,
) {
    let Some(tls) = tls else {
        return listener::serve(ClientListener::Tcp(listener), service, settings, lifecycle).await;
    };
    let clients = ClientListener::Tls(listener, Arc::clone(&tls.config));
    let beside = tls.serve_beside(service.clone(), settings.clone(), lifecycle.clone());
    tokio::join!(listener::serve(clients, service, settings, lifecycle), beside);
}

/// Listens without TLS. If that fails, the gateway goes on: authorities can also verify it over port 443.
async fn listen_plainly(spec: &TlsSpec) -> Option<TcpListener> {
    let address = spec.plain_listen?;
    let bound = bind(address).await;
    bound
        .inspect_err(|error| {
            tracing::warn!(
                "cannot listen on {address} ({error}): nobody is redirected from http, and authorities look only at \
                 port 443; set `http_listen = false` in [tls] if that is right"
            );
        })
        .ok()
}

fn keeper(
    spec: &TlsSpec,
    deps: &TlsDeps<'_>,
    has_plain_port: bool,
    certificates: &Arc<Certificates>,
) -> anyhow::Result<CertificateKeeper> {
    let (world, certificates) = (deps.world, Arc::clone(certificates));
    let authority = match &spec.source {
        CertificateSource::Files(files) => {
            let keeper = CertificateKeeper::of_files(files.clone(), certificates, Arc::clone(&world.clock));
            return keeper.map_err(|fault| anyhow::anyhow!("no certificate can be shown: {fault}"));
        }
        CertificateSource::Authority(authority) => authority,
    };
    let (clock, random) = (Arc::clone(&world.clock), Arc::clone(&world.random));
    let vault = Vault::new(deps.storage.clone(), deps.master.clone(), Arc::clone(&clock), Arc::clone(&random));
    let deps = AuthorityDeps {
        place: spec.place(&authority.directory),
        spec: authority.clone(),
        names: spec.names.clone(),
        storage: deps.storage.clone(),
        vault,
        clock,
        random,
        client: OpenClient::new(&authority.network, &deps.config.environment.to_strings())?,
        is_shared: deps.config.replica.is_some(),
        has_plain_port,
        listen: deps.bound.ip(),
    };
    Ok(CertificateKeeper::of_authority(deps, certificates))
}
