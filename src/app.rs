//! The application: builds every part in order, and the service. The only module that knows all parts.
//!
//! The order is that of dependencies: the socket (so that the port is known), the store, the authorization server, the
//! backends, the gateway, the client side, the pages, the guard and the gate. One tracker owns all tasks, and one token
//! ends them.

mod control;
mod events;
mod http_service;
mod known_servers;
mod machine;
mod settings;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::Url;

pub use self::{control::ControlFile, http_service::HttpService};
use self::{
    events::{EventHandler, Inbox},
    known_servers::{KnownServers, ServerRecords},
    machine::Machine,
};
use crate::{
    backend::{self, Supervisor},
    config::{self, Config, PublicUrl},
    crossing::{self, Crossing},
    frontend::{self, EndpointServers, Frontend, Routes},
    gateway::{self, Gateway, Mount},
    http::Guard,
    listener,
    mcp::Server,
    model::{BackendId, BackendSpec, SessionId, Target, status::Status},
    oauth::{self, OAuth, master_key},
    resource::Gate,
    storage::Storage,
    support::{Clock, OsRandom, Random, SealingKey, Secret, SystemClock},
    telemetry::Telemetry,
    web::{self, StatusSource},
};

/// A gateway that listens and is ready to serve.
pub struct App {
    listener: TcpListener,
    service: HttpService,
    connections: listener::ListenerSettings,
    public_url: PublicUrl,
    first_key: Option<Secret>,
    control: ControlFile,
    data_dir: PathBuf,
    parts: Parts,
    background: Background,
    shutdown: Duration,
}

/// Background tasks that act on events.
struct Background {
    known_servers: KnownServers,
    lost: mpsc::Receiver<SessionId>,
}

/// The parts that run beside the requests and have to be ended.
struct Parts {
    storage: Storage,
    oauth: OAuth,
    supervisor: Arc<Supervisor>,
    crossing: Crossing,
    frontend: Frontend,
    telemetry: Telemetry,
    tracker: TaskTracker,
    cancel: CancellationToken,
    /// Cancelled when the backends have ended.
    ended: CancellationToken,
}

/// The environment of every part: time, randomness, telemetry, events.
struct World {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    telemetry: Telemetry,
    events: Arc<EventHandler>,
    inbox: Inbox,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

/// The parts that the others are built on.
struct Foundation<'a> {
    config: &'a Config,
    public_url: &'a PublicUrl,
    bound: SocketAddr,
    control: &'a ControlFile,
    storage: Storage,
    oauth: OAuth,
    state_key: SealingKey,
    known: ServerRecords,
    /// Maximum number of client connections.
    connections: usize,
}

// === impl App ===

impl App {
    /// Listens, opens the database, starts the backends. Returns before the backends are ready.
    pub async fn build(config: Config, telemetry: Telemetry) -> anyhow::Result<Self> {
        let connections = settings::listener(&config);
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("nothing can listen on {}: is another gateway running there?", config.listen))?;
        let bound = listener.local_addr()?;
        let public_url = config.public_url(bound);
        let (events, inbox) = EventHandler::new();
        let world = World {
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
            telemetry,
            events,
            inbox,
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
        };
        config::files::create(&config.data_dir)
            .with_context(|| format!("the data folder {} cannot be used", config.data_dir.display()))?;
        let storage = Storage::open(&config::files::database(&config.data_dir)).await?;
        let oauth_settings = settings::oauth(&config, &public_url);
        let master = master_key::master_key(&oauth_settings.master_key, &*world.random)?;
        let state_key = master_key::stored_secret(&master, &storage, "request state", &*world.random).await?;
        let state_key =
            state_key.as_slice().try_into().context("the key of request states in the database is broken")?;
        let known = ServerRecords::load(&storage, &config.backends).await;
        let oauth =
            OAuth::open(storage.clone(), Arc::clone(&world.clock), Arc::clone(&world.random), oauth_settings).await?;
        let control = ControlFile::new(bound, &public_url, Secret::new(world.random.token()));
        control.write(&config.data_dir).context("the control file cannot be written")?;
        let shutdown = config.limits.shutdown;
        let foundation = Foundation {
            config: &config,
            public_url: &public_url,
            bound,
            control: &control,
            storage,
            oauth,
            state_key: SealingKey::new(state_key),
            known,
            connections: connections.connections,
        };
        let (service, parts, background) = foundation.assemble(world)?;
        tell_shared_users(&parts.oauth).await?;
        // last, since a new key must be shown: nothing may fail between its creation and its display
        let first_key = parts.oauth.keys().first().await?;
        let data_dir = config.data_dir;
        Ok(Self {
            listener,
            service,
            connections,
            public_url,
            first_key,
            control,
            data_dir,
            parts,
            background,
            shutdown,
        })
    }

    /// The URL for clients, without a trailing slash.
    pub fn public_url(&self) -> &PublicUrl {
        &self.public_url
    }

    /// The service that answers requests, to be served on other streams than the listening socket's.
    pub fn service(&self) -> HttpService {
        self.service.clone()
    }

    /// The operator's key, if this start created it. It is returned once.
    pub fn take_first_key(&mut self) -> Option<Secret> {
        self.first_key.take()
    }

    /// Serves on a thread for each core until `stop`; then no new connection is accepted, running calls get the
    /// configured time, and all parts are ended in the reverse order of their creation. A panic of a thread ends it
    /// too.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> anyhow::Result<()> {
        let Self { listener, service, connections, control, data_dir, parts, background, shutdown, .. } = self;
        let threads = listener::WorkerThreads::start(settings::workers())?;
        parts.watch(background);
        let drain = CancellationToken::new();
        let lifecycle = listener::Lifecycle {
            workers: threads.workers(),
            tracker: parts.tracker.clone(),
            drain: drain.clone(),
            cancel: parts.cancel.child_token(),
        };
        let serving = listener::serve(listener, service, connections, lifecycle);
        let stopping = async {
            stop.await;
            tracing::info!("stopping: running calls may finish");
            parts.frontend.drain();
            drain.cancel();
            tokio::time::sleep(shutdown).await;
        };
        let outcome = tokio::select! {
            () = serving => Ok(()),
            () = stopping => Ok(()),
            () = threads.failed() => Err(anyhow::anyhow!("a worker thread panicked: the log tells where")),
        };
        control.remove(&data_dir);
        parts.end().await;
        drop(threads);
        outcome
    }
}

// === impl Parts ===

impl Parts {
    /// Starts the tasks beside the requests.
    fn watch(&self, background: Background) {
        let Background { known_servers, lost } = background;
        let (oauth, cancel) = (self.oauth.clone(), self.cancel.clone());
        self.tracker.spawn(async move { oauth.watch_revocations(cancel).await });
        let (frontend, cancel) = (self.frontend.clone(), self.cancel.clone());
        self.tracker.spawn(async move { frontend.run_reaper(cancel).await });
        let lost = end_lost(self.frontend.clone(), lost);
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move { cancel.run_until_cancelled(lost).await });
        self.tracker.spawn(known_servers.run(self.ended.clone()));
        self.tracker.spawn(self.telemetry.clone().upkeep(self.cancel.clone()));
    }

    async fn end(self) {
        self.frontend.close().await;
        self.crossing.close().await;
        self.cancel.cancel();
        self.supervisor.shutdown().await;
        self.ended.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        self.storage.close().await;
        tracing::info!("stopped");
    }
}

/// Reports once to the operator which keys share a user since the time when that was the default.
async fn tell_shared_users(oauth: &OAuth) -> Result<(), oauth::OAuthError> {
    for (user, keys) in oauth.keys().take_shared_users().await? {
        tracing::warn!(%user, keys, "{keys} API keys share the user `{user}`, as keys did that were created without --user: \
            their holders share sessions, processes and quotas, and see each other's connected apps as far as their \
            rights reach. Existing keys stay so; keys created without --user are users of their own from now on. \
            To part a key from the others: lockkeeper keys rotate ID --own-user (lockkeeper keys list shows the ids)");
    }
    Ok(())
}

/// Ends each client session whose state at a backend is lost, if the operator wants it (`on_loss = "end"`).
async fn end_lost(frontend: Frontend, mut lost: mpsc::Receiver<SessionId>) {
    while let Some(session) = lost.recv().await {
        frontend.end_session(&session).await;
    }
}

// === impl Foundation ===

impl Foundation<'_> {
    /// Builds the backends, the gateway, the frontends, and the service around them.
    fn assemble(self, world: World) -> anyhow::Result<(HttpService, Parts, Background)> {
        let supervisor = Arc::new(Supervisor::start(self.config.backends.clone(), self.backend_deps(&world))?);
        world.events.set_eras(|| supervisor.eras());
        let gateway = self.gateway(&supervisor, &world);
        world.events.set_holders(&supervisor, &gateway);
        let crossing = self.crossing(&world);
        let frontend = self.frontend(self.routes(&gateway, &crossing), &world);
        let status = self.status(&supervisor, &gateway, &frontend, &*world.clock);
        let gate = Gate::new(self.oauth.clone(), settings::gate(self.config));
        let machine = Machine {
            supervisor: Arc::clone(&supervisor),
            status: Arc::clone(&status),
            telemetry: world.telemetry.clone(),
            gate: gate.clone(),
            control: self.control.token.digest(),
        };
        let public_url = Url::parse(self.public_url.as_str())?;
        let web = web::WebState {
            oauth: self.oauth.clone(),
            storage: self.storage.clone(),
            clock: Arc::clone(&world.clock),
            random: Arc::clone(&world.random),
            settings: web::WebSettings::new(public_url.clone()),
            status,
        };
        world.tracker.spawn(web.clone().sweep_sessions(world.cancel.clone()));
        let others = self.oauth.router().merge(machine::router(machine)).merge(web::router(web));
        let guard = Guard::new(&settings::http(self.config, public_url, self.bound, Arc::clone(&world.random)));
        let service = HttpService::new((guard, gate), (frontend.streamable(), frontend.router()), others);
        let World { telemetry, inbox, tracker, cancel, .. } = world;
        let Self { config, storage, oauth, known, .. } = self;
        let known_servers = KnownServers::new(storage.clone(), &config.backends, inbox.known, known.eras);
        let background = Background { known_servers, lost: inbox.lost };
        let ended = CancellationToken::new();
        let parts = Parts { storage, oauth, supervisor, crossing, frontend, telemetry, tracker, cancel, ended };
        Ok((service, parts, background))
    }

    fn backend_deps(&self, world: &World) -> backend::BackendDeps {
        backend::BackendDeps {
            clock: Arc::clone(&world.clock),
            eras: self.known.eras.clone(),
            environment: self.config.environment.to_strings(),
            sessions: self.config.limits.backend_sessions,
            slot_limits: settings::slots(self.config),
            observer: world.events.observer(),
            shutdown: world.cancel.child_token(),
        }
    }

    fn gateway(&self, supervisor: &Supervisor, world: &World) -> Arc<Gateway> {
        let mount = |((id, server), spec): ((BackendId, Arc<dyn Server>), &BackendSpec)| Mount {
            title: id.to_string(),
            introduction: self.known.descriptions.get(&id).cloned(),
            id,
            server,
            share: spec.share,
            read_only_tools: spec.read_only_tools.clone(),
        };
        let mounts = supervisor.servers().into_iter().zip(&self.config.backends).map(mount).collect();
        let deps = gateway::GatewayDeps {
            observer: world.events.observer(),
            random: Arc::clone(&world.random),
            tracker: world.tracker.clone(),
            cancel: world.cancel.child_token(),
        };
        Gateway::new(mounts, settings::gateway(self.config), deps)
    }

    fn crossing(&self, world: &World) -> Crossing {
        let (clock, random) = (Arc::clone(&world.clock), Arc::clone(&world.random));
        let deps = crossing::SuspensionDeps { clock, random, state_key: self.state_key.clone() };
        Crossing::new(&settings::crossing(self.config), deps)
    }

    /// The server of each endpoint.
    fn routes(&self, gateway: &Arc<Gateway>, crossing: &Crossing) -> Routes {
        let around = |target, server: Arc<dyn Server>| {
            let requests = crossing.around_endpoint(target, Arc::clone(&server));
            Arc::new(EndpointServers { sessions: server, requests })
        };
        let single = |spec: &BackendSpec| {
            let target = Target::Backend(spec.id.clone());
            Some((spec.id.clone(), around(target, gateway.single(&spec.id)?)))
        };
        Routes {
            merged: around(Target::Merged, gateway.merged()),
            backends: self.config.backends.iter().filter_map(single).collect(),
        }
    }

    fn frontend(&self, routes: Routes, world: &World) -> Frontend {
        let deps = frontend::Deps {
            storage: self.storage.clone(),
            clock: Arc::clone(&world.clock),
            random: Arc::clone(&world.random),
            observer: world.events.observer(),
        };
        Frontend::new(routes, settings::frontend(self.config, self.connections), deps)
    }

    /// Returns the status of the gateway, computed on each request.
    fn status(
        &self,
        supervisor: &Arc<Supervisor>,
        gateway: &Arc<Gateway>,
        frontend: &Frontend,
        clock: &dyn Clock,
    ) -> StatusSource {
        let (supervisor, gateway, frontend) = (Arc::clone(supervisor), Arc::clone(gateway), frontend.clone());
        let (started, url) = (clock.now().to_string(), format!("{}/mcp", self.public_url));
        Arc::new(move || {
            let mut backends = supervisor.status();
            for backend in &mut backends {
                if let Ok(id) = BackendId::parse(&backend.id) {
                    backend.counts = gateway.counts(&id);
                    backend.left_out = gateway.left_out(&id);
                }
            }
            Status {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started: started.clone(),
                url: url.clone(),
                backends,
                sessions: frontend.status(),
            }
        })
    }
}
