//! The application for one local client over standard input and output. It has no listener, users or pages. The data
//! folder only gets records of the servers, for a quicker next start.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    call_path::{CallPath, CallPathDeps, World},
    kept_lists::KeptLists,
    known_servers::{KnownServers, ServerRecords},
    module_settings::{self, LiveSettings},
    replica::ReplicaPart,
};
use crate::{
    config::{Config, files},
    frontend::UpgradeOffer,
    gateway::GatewaySettings,
    listener::descriptors,
    mcp::SoleClient,
    model::{Caller, EgressPolicy, Naming, ServerAccess, Target},
    resource::{Authorized, StreamLease},
    storage::Storage,
    support::{Digest, SealingKey},
    telemetry::Telemetry,
};

/// Time for running calls after a signal. Clients wait two seconds between `SIGTERM` and `SIGKILL`.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Age at which unused records are deleted.
const RECORDS_UNUSED: Duration = Duration::from_hours(24 * 90);
/// Maximum number of connections: the limit for listens derives from it, though there is only one client.
const CONNECTIONS: usize = 1_024;

/// Maximum wait of a list for servers that have never answered, if others have. Servers start together with the client,
/// and many clients list only once, at the start; no client gives up before 30 seconds.
const LIST_BUDGET: Duration = Duration::from_secs(20);

/// A gateway for one local client.
pub struct StdioApp(LocalService);

/// The service for the client on standard input and output.
enum LocalService {
    LocalServers(Box<LocalServers>),
    /// The client must log in at an HTTP endpoint; no server is started.
    Upgrade(UpgradeOffer),
}

struct LocalServers {
    path: CallPath,
    storage: Storage,
    /// Writes what is stored about servers; `None` if it cannot be stored.
    records: Option<KnownServers>,
    kept_lists: Option<Arc<KeptLists>>,
    world: World,
    target: Target,
}

// === impl StdioApp ===

impl StdioApp {
    /// Starts the backends; returns before they are ready. `records` is the folder for what is stored about servers;
    /// `None` stores nothing.
    pub async fn build(config: &Config, records: Option<PathBuf>, telemetry: Telemetry) -> anyhow::Result<Self> {
        Ok(Self(match module_settings::upgrade(config) {
            Some(offer) => LocalService::Upgrade(offer),
            None => LocalService::LocalServers(Box::new(LocalServers::start(config, records, telemetry).await?)),
        }))
    }

    /// Serves the client until it closes `input`, stops reading `output`, or `stop` completes; then ends everything.
    /// The client is the program that started this process, so it needs no authorization.
    pub async fn serve(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        stop: impl Future<Output = ()>,
    ) {
        match self.0 {
            LocalService::LocalServers(servers) => servers.serve(input, output, stop).await,
            LocalService::Upgrade(offer) => tokio::select! {
                () = offer.serve(input, output) => {}
                () = stop => {}
            },
        }
    }
}

// === impl LocalServers ===

impl LocalServers {
    async fn start(config: &Config, records: Option<PathBuf>, telemetry: Telemetry) -> anyhow::Result<Self> {
        descriptors::raise();
        let world = World::new(telemetry, &EgressPolicy::default());
        // sessions end with their channel, so nothing has to outlive the process
        let storage = Storage::in_memory().await?;
        let stored = match records {
            Some(folder) => open_records(folder, config).await,
            None => None,
        };
        let known = match &stored {
            Some(stored) => ServerRecords::load(stored, &config.backends).await,
            None => ServerRecords::default(),
        };
        let kept_lists = stored.as_ref().map(|stored| KeptLists::new(stored.clone(), None, Arc::clone(&world.clock)));
        let live = LiveSettings::of(config);
        let deps = CallPathDeps {
            config,
            live: &live,
            storage: &storage,
            state_key: SealingKey::ephemeral(&*world.random),
            known: &known,
            connections: CONNECTIONS,
            signer: None,
            access: ServerAccess::none(),
            list_store: kept_lists.clone().map(|kept| kept as _),
            gateway: GatewaySettings { cold_list_budget: LIST_BUDGET, ..module_settings::gateway(config) },
            task_owners: None,
            replica: ReplicaPart::sole(),
            sole_client: Some(SoleClient::default()),
        };
        let path = deps.build(&world)?;
        let news = world.inbox.known.clone();
        let records = stored.map(|stored| KnownServers::new(stored, Arc::clone(&path.supervisor), news, known.eras));
        Ok(Self { path, storage, records, kept_lists, world, target: target(config) })
    }

    async fn serve(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        stop: impl Future<Output = ()>,
    ) {
        let Self { path, storage, records, kept_lists, world, target } = self;
        let World { inbox, tracker, cancel, .. } = world;
        if let Some(records) = records {
            tracker.spawn(records.run(cancel.clone()));
        }
        if let Some(kept_lists) = kept_lists {
            tracker.spawn(kept_lists.run(cancel.clone()));
        }
        let events = inbox.pending.handle(Arc::clone(&path.gateway), path.frontend.clone());
        tracker.spawn(cancel.clone().run_until_cancelled_owned(events));
        let lease = StreamLease { expires: None, revoked: Arc::default() };
        let client = Authorized { caller: Arc::new(Caller::local()), lease };
        let stopping = async {
            stop.await;
            tracing::info!("stopping: running calls may finish");
            path.frontend.drain();
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            () = path.frontend.serve_stdio(client, target, input, output) => {}
            () = stopping => {}
        }
        path.end(&cancel).await;
        tracker.close();
        tracker.wait().await;
        storage.close().await;
        tracing::info!("stopped");
    }
}

/// Opens the store for these servers. Several clients may run at once, each with different servers.
async fn open_records(folder: PathBuf, config: &Config) -> Option<Storage> {
    let servers = config.backends.iter().filter_map(|spec| spec.transport.server());
    let servers: String = servers.map(|server| server.to_base64url()).collect();
    let file = folder.join(format!("{}.sqlite3", Digest::sha256(servers).short_hex(8)));
    let prepared = tokio::task::spawn_blocking(move || {
        files::create(&folder)?;
        files::remove_unused(&folder, RECORDS_UNUSED)
    });
    let prepared = prepared.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
    let opened = match prepared {
        Ok(()) => Storage::open(&file).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    // for example, if the data folder is not writable
    opened.inspect_err(|error| tracing::debug!(error, file = %file.display(), "the servers are not remembered")).ok()
}

/// Endpoint of the client. A single backend without name prefixes is served directly.
fn target(config: &Config) -> Target {
    match &config.backends[..] {
        [only] if config.naming == Naming::Plain => Target::Backend(only.id.clone()),
        _ => Target::Merged,
    }
}
