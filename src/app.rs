//! The application: builds every part in order, and the service. The only module that knows all parts.
//!
//! Parts are built in the order of their dependencies: the socket (so that the port is known), the store, the
//! authorization server, the call path, the pages, the guard and the gate. One tracker owns all tasks, and one token
//! ends them.

mod call_path;
mod client_metadata;
mod control;
mod data_lock;
pub mod database;
mod events;
mod first_access;
mod freed_memory;
mod http_service;
mod kept_lists;
mod known_servers;
mod local_socket;
mod log_switch;
mod machine;
mod machine_memory;
mod module_settings;
mod operator;
mod outbound;
mod outgoing;
mod own_files;
mod parts;
pub mod private_proxies;
mod readings;
mod reload;
mod replica;
mod run_record;
mod server_cards;
mod shared_users;
pub mod stack;
mod status;
mod stdio;
mod stored_task_owners;
mod this_process;
mod tls;

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context as _;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::{
    call_path::{CallPath, CallPathDeps, World},
    control::WrittenControlFile,
    kept_lists::KeptLists,
    known_servers::{KnownServers, ServerRecords},
    log_switch::LogSwitch,
    machine::Machine,
    module_settings::LiveSettings,
    operator::OperatorDesk,
    outbound::{document_hosts, login_providers, upstream_client},
    parts::{Background, Parts},
    reload::ReloaderDeps,
    replica::{OpenDoor, ReplicaPart},
    run_record::RecordGuard,
    stored_task_owners::StoredTaskOwners,
    this_process::ThisProcess,
    tls::{TlsDeps, TlsPart},
};
pub use self::{
    control::ControlFile,
    data_lock::{DataLock, DataLockError},
    first_access::{FirstAccess, FirstAccessForm},
    http_service::HttpService,
    local_socket::connect as connect_local_socket,
    module_settings::{log_settings, master_key as master_key_source},
    operator::MAX_RAISED,
    private_proxies::RestrictedKeys,
    reload::{ReloadReport, Reloader},
    run_record::{ForeignRecords, RunRecord, RunningGateways},
    stdio::StdioApp,
    tls::{CannotListen, Sockets},
};
use crate::{
    config::{self, Config, MasterKeyPlace, PublicUrl},
    http::Guard,
    listener,
    oauth::{self, OAuth, master_key},
    openid::Providers,
    replicas::{Deposed, ReplicaDoor, Replicas},
    resource::Gate,
    storage::{DatabaseClaim, Storage},
    support::{Latch, SealingKey, Secret},
    telemetry::Telemetry,
    upstream::Upstream,
    web::{self, StatusSource, ToolCounter},
};

/// A gateway that listens and is ready to serve.
pub struct App {
    listener: TcpListener,
    service: HttpService,
    connections: listener::ListenerSettings,
    public_url: PublicUrl,
    control: WrittenControlFile,
    process: ThisProcess,
    /// The listener for other replicas; `None` without `[replica]`.
    door: Option<ReplicaDoor>,
    tls: Option<TlsPart>,
    parts: Parts,
    background: Background,
    reloader: Arc<Reloader>,
    live: LiveSettings,
    /// These reserve the data folder for one gateway, with a record of it, and the database for one gateway or its
    /// replicas. Last, so that they are dropped after everything that uses either.
    locks: (RecordGuard, DataLock, DatabaseClaim),
}

/// The base that the other parts are built on.
struct Foundation<'a> {
    config: &'a Config,
    process: &'a ThisProcess,
    live: &'a LiveSettings,
    public_url: &'a PublicUrl,
    bound: SocketAddr,
    control: &'a WrittenControlFile,
    storage: Storage,
    oauth: OAuth,
    upstream: Upstream,
    state_key: SealingKey,
    providers: Providers,
    known: ServerRecords,
    kept_lists: Arc<KeptLists>,
    /// Maximum number of client connections.
    connections: usize,
    /// `None` unless this gateway is one of several replicas.
    replicas: Option<Replicas>,
    tls: Option<&'a TlsPart>,
}

// === impl App ===

impl App {
    /// Listens, opens the database, starts the backends. Returns before the backends are ready.
    pub async fn build(config: Config, telemetry: Telemetry) -> anyhow::Result<Self> {
        let sockets = Sockets::bind(&config).await?;
        Self::build_on(sockets, config, telemetry).await
    }

    /// The same, on sockets that already listen.
    pub async fn build_on(sockets: Sockets, config: Config, telemetry: Telemetry) -> anyhow::Result<Self> {
        let Sockets { main: listener, plain } = sockets;
        let live = LiveSettings::of(&config);
        let connections = module_settings::listener(&config, &live);
        let bound = listener.local_addr()?;
        let public_url = config.public_url(bound);
        let world = World::new(telemetry, &config.auth.egress);
        let lock = lock(&config.data_dir)?;
        let storage = database::open(&config.database).await?;
        let claim = database::claim(&storage, &config).await?;
        let process = ThisProcess::of(&config)?;
        let master = master_key(&config.master_key, &storage, &world).await?;
        let state_key = state_key(&master, &storage, &world).await?;
        let providers = login_providers(&config, &state_key, &public_url, &world)?;
        let settings = module_settings::oauth(&config, &live, &public_url);
        let oauth = authorization_server(settings, &providers, &storage, &world).await?;
        private_proxies::agree(&config.http.trusted_proxies, &oauth, world.clock.now()).await?;
        shared_users::tell(&oauth).await?;
        let upstream = upstream_client(&config, &oauth, &storage, &master, &public_url, &world)?;
        let deps = TlsDeps { config: &config, storage: &storage, master: &master, bound, world: &world };
        let tls = TlsPart::build(deps, plain).await?;
        let control = control_file(&config.data_dir, bound, &public_url, tls.as_ref(), &world)?;
        let (replicas, door) = replica::join(&config, &storage, &live.budget, &world.clock).await?;
        let foundation = Foundation {
            config: &config,
            process: &process,
            live: &live,
            public_url: &public_url,
            bound,
            control: &control,
            known: ServerRecords::load(&storage, &config.backends).await,
            kept_lists: KeptLists::sealed(&storage, &master, &world),
            storage,
            oauth,
            upstream,
            state_key,
            providers,
            connections: connections.connections,
            replicas,
            tls: tls.as_ref(),
        };
        let (service, parts, background, reloader) = foundation.assemble(world)?;
        Ok(Self {
            listener,
            service,
            connections,
            public_url,
            control,
            locks: (process.guard(), lock, claim),
            process,
            door,
            tls,
            parts,
            background,
            reloader,
            live,
        })
    }

    /// URL for clients, without a trailing slash.
    pub fn public_url(&self) -> &PublicUrl {
        &self.public_url
    }

    /// The address that it listens on.
    pub fn listens_on(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// The service that answers requests, for streams other than the listening socket's.
    pub fn service(&self) -> HttpService {
        self.service.clone()
    }

    /// Applies new configurations to the running gateway.
    pub fn reloader(&self) -> Arc<Reloader> {
        Arc::clone(&self.reloader)
    }

    /// Writes the records that commands on this machine use to find the gateway. Also checks in the background which
    /// configured hosts can be reached.
    pub fn announce(&self) -> anyhow::Result<()> {
        self.process.announce().context("the record of this start cannot be written")?;
        let (process, cancel) = (self.process.clone(), self.parts.cancel.clone());
        self.parts.tracker.spawn(async move { cancel.run_until_cancelled(process.check_outgoing()).await });
        Ok(())
    }

    /// Serves on a thread for each core until `signal`. Then it reports itself as not ready, and goes on serving for
    /// the configured delay. After that it accepts no new connections, gives running calls the configured time, and
    /// ends all parts in the reverse order of their creation. It also ends if a thread panics.
    pub async fn serve(self, signal: impl Future<Output = ()> + Send + 'static) -> anyhow::Result<()> {
        match listener::WorkerThreads::start(module_settings::workers()) {
            Ok(threads) => self.serve_on(threads, signal).await,
            Err(error) => {
                self.parts.end(None).await;
                Err(error.into())
            }
        }
    }

    /// Serves on these threads, and ends all parts.
    async fn serve_on(
        self,
        threads: listener::WorkerThreads,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let Self { listener, service, connections, control, locks, door, tls, .. } = self;
        let (parts, background, live) = (self.parts, self.background, self.live);
        let deposed = parts.watch(background);
        let drain = CancellationToken::new();
        let lifecycle = listener::Lifecycle {
            workers: threads.workers(),
            tracker: parts.tracker.clone(),
            drain: drain.clone(),
            cancel: parts.cancel.child_token(),
        };
        let door = door.map(|door| OpenDoor::open(door, service.clone(), connections.connections, threads.workers()));
        let serving = async {
            tls::serve(tls, listener, service, connections, lifecycle).await;
            if let Some(replicas) = &parts.replicas {
                // other replicas forward requests about tasks here, and such a request may create one
                loop {
                    parts.path.frontend.tasks_ended().await;
                    replicas.quiet().await;
                    if !parts.path.frontend.has_tasks() {
                        break;
                    }
                }
                replicas.finished().await;
            }
        };
        let running = || live.limits.get().shutdown;
        let stopping = async {
            signal.await;
            parts.leaving.cancel();
            let delay = live.limits.get().shutdown_delay;
            if !delay.is_zero() {
                tracing::info!("about to stop: not ready, and serving for {} s more", delay.as_secs_f32());
                tokio::time::sleep(delay).await;
            }
            tracing::info!("stopping: running calls may finish");
            parts.path.frontend.drain();
            if let Some(replicas) = &parts.replicas {
                replicas.drain();
            }
            drain.cancel();
            tokio::time::sleep(running()).await;
        };
        let outcome = tokio::select! {
            () = serving => Ok(()),
            () = stopping => Ok(()),
            () = threads.failed() => Err(anyhow::anyhow!("a worker thread panicked: the log says where")),
            () = deposed.cancelled() => Err(Deposed.into()),
        };
        drop(control);
        if deposed.is_cancelled() {
            // nothing may be sent any more, so do not wait longer for it
            let _ = timeout(running(), parts.end(door)).await;
        } else {
            parts.end(door).await;
        }
        drop(threads);
        drop(locks);
        outcome
    }
}

async fn authorization_server(
    settings: oauth::OAuthSettings,
    providers: &Providers,
    storage: &Storage,
    world: &World,
) -> Result<OAuth, oauth::OAuthError> {
    let (fetcher, document_hosts, assertions) =
        (world.fetcher.clone(), document_hosts(), providers.assertion_verifier());
    let settings = oauth::OAuthSettings { fetcher, document_hosts, assertions, ..settings };
    OAuth::open(storage.clone(), Arc::clone(&world.clock), Arc::clone(&world.random), settings).await
}

/// Writes the control file, with a new token.
fn control_file(
    data_dir: &Path,
    bound: SocketAddr,
    public_url: &PublicUrl,
    tls: Option<&TlsPart>,
    world: &World,
) -> anyhow::Result<WrittenControlFile> {
    let control = ControlFile::new(bound, public_url, Secret::new(world.random.token()));
    let control = tls.map_or(control.clone(), |tls| tls.reached_by(control));
    WrittenControlFile::write(control, data_dir).context("the control file cannot be written")
}

/// Checks that no other gateway uses this data folder. One may begin to before the folder is locked.
pub fn check_unused(folder: &Path) -> Result<(), DataLockError> {
    DataLock::check_unused(folder)
}

/// Creates the data folder if needed, and locks it.
fn lock(folder: &Path) -> anyhow::Result<DataLock> {
    config::files::create(folder).with_context(|| format!("the data folder {} cannot be used", folder.display()))?;
    Ok(DataLock::take(folder)?)
}

/// The master key. Must be called while the data folder is locked.
async fn master_key(place: &MasterKeyPlace, storage: &Storage, world: &World) -> anyhow::Result<SealingKey> {
    if let MasterKeyPlace::InFolder(path) = place {
        master_key::finish_rotation(path, storage, &*world.random).await?;
    }
    Ok(master_key::master_key(&master_key_source(place), storage, &*world.random).await?)
}

/// The key that seals request states, shared by all gateways on the database.
async fn state_key(master: &SealingKey, storage: &Storage, world: &World) -> anyhow::Result<SealingKey> {
    let key = master_key::stored_secret(master, storage, "request state", &*world.random).await?;
    let key = key.as_slice().try_into().context("the key of request states in the database is broken")?;
    Ok(SealingKey::new(key))
}

// === impl Foundation ===

impl Foundation<'_> {
    /// Builds the backends, the gateway, the frontend, and the service around them.
    fn assemble(self, world: World) -> anyhow::Result<(HttpService, Parts, Background, Arc<Reloader>)> {
        let path = self.call_path(&world).build(&world)?;
        let log = LogSwitch::new(world.telemetry.clone(), log_settings(&self.config.log));
        let deps = ReloaderDeps {
            oauth: self.oauth.clone(),
            upstream: self.upstream.clone(),
            replicas: self.replicas.clone(),
            clock: Arc::clone(&world.clock),
            live: self.live.clone(),
            log: log.clone(),
        };
        let reloader = Arc::new(Reloader::new(self.config.clone(), &path, deps));
        let status = self.status(&path, &reloader, &world.clock);
        let gate = Gate::new(self.oauth.clone(), module_settings::gate(self.config));
        let public_url = Url::parse(self.public_url.as_str())?;
        let machine = Machine {
            supervisor: Arc::clone(&path.supervisor),
            gateway: Arc::clone(&path.gateway),
            status: Arc::clone(&status),
            telemetry: world.telemetry.clone(),
            budget: self.live.budget.clone(),
            gate: gate.clone(),
            oauth: self.oauth.clone(),
            replicas: self.replicas.clone(),
            public_url: public_url.clone(),
            since: world.clock.now(),
            leaving: world.leaving.clone(),
            started: Latch::default(),
            control: self.control.token(),
        };
        let desk = self.desk(&path, &status, log, &world);
        let web = self.web(public_url.clone(), status, Self::tools(&path), &world);
        world.tracker.spawn(web.clone().sweep_sessions(world.cancel.clone()));
        world.tracker.spawn(web.clone().keep_logins_confirmed(world.cancel.clone()));
        let others = self.oauth.router().merge(machine::router(machine)).merge(operator::router(desk));
        let others = others.merge(web::router(web)).merge(server_cards::router(&self.oauth));
        let others = others.merge(client_metadata::router(self.upstream.clone()));
        let guard = Guard::new(&module_settings::http(
            self.config,
            self.live,
            public_url,
            self.bound,
            Arc::clone(&world.random),
        ));
        let service = HttpService::new(guard, gate, path.frontend.clone(), others, self.replicas.clone());
        let World { inbox, tracker, leaving, cancel, .. } = world;
        let Self { storage, oauth, upstream, known, kept_lists, replicas, .. } = self;
        let known_servers = KnownServers::new(storage.clone(), Arc::clone(&path.supervisor), inbox.known, known.eras);
        let background = Background { known_servers, kept_lists, events: inbox.pending };
        let ended = CancellationToken::new();
        let parts = Parts { storage, oauth, upstream, path, replicas, tracker, leaving, cancel, ended };
        Ok((service, parts, background, reloader))
    }

    fn desk(&self, path: &CallPath, status: &StatusSource, log: LogSwitch, world: &World) -> OperatorDesk {
        OperatorDesk {
            supervisor: Arc::clone(&path.supervisor),
            frontend: path.frontend.clone(),
            oauth: self.oauth.clone(),
            status: Arc::clone(status),
            log,
            tracker: world.tracker.clone(),
            cancel: world.cancel.clone(),
            control: self.control.token(),
        }
    }

    fn web(&self, public_url: Url, status: StatusSource, tools: ToolCounter, world: &World) -> web::WebState {
        web::WebState {
            oauth: self.oauth.clone(),
            upstream: self.upstream.clone(),
            storage: self.storage.clone(),
            clock: Arc::clone(&world.clock),
            random: Arc::clone(&world.random),
            settings: web::WebSettings::new(public_url),
            providers: self.providers.clone(),
            tasks: world.tracker.clone(),
            status,
            tools,
        }
    }

    fn call_path(&self, world: &World) -> CallPathDeps<'_> {
        CallPathDeps {
            config: self.config,
            live: self.live,
            storage: &self.storage,
            state_key: self.state_key.clone(),
            known: &self.known,
            connections: self.connections,
            signer: Some(self.oauth.identity_signer()),
            gateway: module_settings::gateway(self.config),
            access: self.upstream.access().clone(),
            list_store: Some(Arc::clone(&self.kept_lists) as _),
            task_owners: Some(StoredTaskOwners::new(self.storage.clone(), Arc::clone(&world.clock))),
            replica: ReplicaPart::of(self.replicas.as_ref()),
            sole_client: None,
        }
    }
}
