//! One backend outside the gateway, behind a transport: its parts.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    backend::{
        connection::discover::speaks_other_era,
        context::BackendContext,
        error::{DispatchError, StartError},
        interests::{Interests, listens::Listens},
        server::call_meters::CallMeters,
        sharing::{
            connection_key::{ConnectionKey, KeyRule},
            connection_slot::CLIENT_LEFT,
            pool::Pool,
            slots::QuestionSlots,
        },
        start::{connection_start::ConnectionStart, detection::Detection, era::BackendEra, opener::Opener},
        supervision::health::Health,
        transport::lost_call,
    },
    crossing::ServerCrossing,
    mcp::{
        ClientInfo, Context, ErrorObject, SoleClient,
        hearers::{Announcer, AnnouncingServer, Hearers, HeldLevel},
    },
    model::{BackendSpec, Requester, UserId, status::BackendStatus},
};

/// Interval at which the calls of a server that is being ended are checked.
const LOOK: Duration = Duration::from_millis(100);

/// Reason when the operator restarts the server.
pub(crate) const RESTARTED: &str = "the operator has the server started anew";

/// Time in which calls of a user who has left may end.
const FAREWELL: Duration = Duration::from_millis(700);

/// A backend outside of the gateway, which is reached over a transport.
pub(crate) struct ExternalBackend {
    pub(crate) spec: Arc<BackendSpec>,
    pub(crate) keys: KeyRule,
    pub(crate) era: BackendEra,
    pub(crate) health: Health,
    pub(crate) meters: Arc<CallMeters>,
    pub(crate) opener: Opener,
    pub(crate) pool: Arc<Pool>,
    pub(crate) listens: Arc<Listens>,
    pub(crate) interests: Arc<Interests>,
    pub(crate) slots: Arc<QuestionSlots>,
    pub(crate) crossing: Arc<ServerCrossing>,
    /// Process ids of the programs that ran when the operator last restarted the server.
    pub(crate) restarts: watch::Sender<Vec<u32>>,
    pub(crate) context: BackendContext,
}

impl ExternalBackend {
    /// Creates the backend; `supervision` starts it.
    pub(crate) fn new(spec: BackendSpec, context: BackendContext) -> Self {
        let spec = Arc::new(spec);
        let era = BackendEra::new(&spec, &context.memory, &context.clock);
        let keys = KeyRule::new(Arc::clone(&spec), context.sole_client.clone());
        let account = context.budget.server(spec.id.as_str());
        let server = AnnouncingServer { backend: Arc::new(spec.id.clone()), account };
        let (hearers, user) = (Arc::clone(&context.hearers), context.user.clone());
        let listens = Listens::new(server, era.clone(), keys.clone(), hearers, user);
        let interests = Arc::<Interests>::default();
        let slots = QuestionSlots::new(spec.parallel, context.limits.clone());
        let pool = Pool::new(context.limits.clone());
        let opener = Opener::new(&spec, &context, &listens, &interests);
        let health = Health::starting(&context.clock);
        let meters = CallMeters::new(spec.id.clone());
        let background = context.tasks.clone();
        let spawn = move |task| background.spawn_until_end(task);
        let (origin, clock) = (opener.origin.clone(), Arc::clone(&context.clock));
        let crossing = ServerCrossing::new(origin, spec.call_timeout, clock, Box::new(spawn));
        let restarts = watch::Sender::default();
        Self { spec, keys, era, health, meters, opener, pool, listens, interests, slots, crossing, restarts, context }
    }

    /// Drops the state of a client that has left.
    pub(crate) fn forget(&self, requester: &Requester) {
        if let Some(session) = requester.session() {
            self.pool.forget(session);
        }
        self.crossing.ended(requester);
    }

    /// The state for status displays. The catalog adds the counts of lists.
    pub(crate) fn reported(&self) -> BackendStatus {
        let (transport, sessions) = (&self.opener.transport, self.pool.count());
        let era = self.era.status();
        let mut status = self.health.report(&self.spec.id, transport.name(), era, sessions, &transport.output);
        status.warnings.extend(self.pool.warning());
        status.warnings.extend(transport.oddities.warning());
        status
    }

    /// Probes once if a server that completed the handshake also speaks the other era. A program may exit at an unknown
    /// method, so the session of a sole client is not used for this, nor any session while a call runs.
    pub(crate) async fn ask_for_other_era(&self) {
        let Some(connection) = self.pool.base().connection().filter(|_| self.sole_client().is_none()) else { return };
        if !self.pool.is_in_use() && self.era.asks_for_other() && speaks_other_era(&connection).await {
            self.era.note_other();
        }
    }

    /// Ends all connections and processes once no call runs, after `grace` at the latest, or when all backends end.
    /// Waits for their end.
    pub(crate) async fn finish_unused(&self, grace: Duration) {
        let unused = async {
            while self.pool.is_in_use() {
                sleep(LOOK).await;
            }
        };
        let tasks = &self.context.tasks;
        let _ = tasks.end().run_until_cancelled(timeout(grace, unused)).await;
        tasks.finish().await;
    }

    /// Ends all connections and processes, and starts the server anew. Returns when that start has succeeded or failed.
    pub(crate) async fn restart(&self) {
        let before = self.health.starts();
        tracing::info!(server = %self.spec.id, "{RESTARTED}");
        // the program may be another one now
        self.opener.transport.forget();
        let pids = self.context.spawner.running().pids();
        drop(self.opener.transport.spares.unneeded(Duration::ZERO));
        // before the processes end, so that calls fail with this reason
        self.pool.end_clients(RESTARTED);
        // the supervisor ends the base connection and all processes
        self.restarts.send_replace(pids);
        self.health.start_after(before).await;
    }

    /// Ends the connections of a user who has left, and their processes. Before that, the server receives the
    /// cancellation of calls that end with the user.
    pub(crate) fn end_user(&self, user: &UserId) {
        let slots = self.pool.take_user(user);
        if slots.is_empty() {
            return;
        }
        self.context.tasks.spawn(async move {
            let idle = async {
                while !slots.iter().all(|slot| slot.is_idle()) {
                    sleep(LOOK).await;
                }
                // let the last cancellation be written
                sleep(LOOK).await;
            };
            // also if a call does not end in time
            let _ = timeout(FAREWELL, idle).await;
            for slot in slots {
                slot.leave(CLIENT_LEFT);
            }
        });
    }

    /// The only client, if the base connection is its session.
    pub(crate) fn sole_client(&self) -> Option<&SoleClient> {
        self.keys.sole_client()
    }

    /// Key of the base connection.
    pub(crate) fn base_key(&self) -> ConnectionKey {
        self.keys.base()
    }

    /// The client that the base connection introduces to the server: the gateway, or the sole client once it is known.
    pub(crate) async fn base_client(&self) -> Arc<ClientInfo> {
        match self.sole_client() {
            Some(sole) => sole.told().await,
            None => Arc::new(ClientInfo::gateway()),
        }
    }

    /// Detection of the server's era: with the connection `legacy` if the server has sessions, and with the key
    /// `modern` if not.
    pub(crate) fn detection<'a>(&'a self, legacy: ConnectionStart<'a>, modern: &'a ConnectionKey) -> Detection<'a> {
        Detection { opener: &self.opener, era: &self.era, pool: &self.pool, legacy, modern }
    }

    /// Why the server cannot be used now; `None` if a call may try.
    pub(crate) fn trouble(&self) -> Option<StartError> {
        // the supervisor learns a moment late that this replica is the home
        let is_past = |trouble: &StartError| *trouble == StartError::Elsewhere && self.context.home.is_open();
        self.health.trouble().filter(|trouble| !is_past(trouble))
    }

    /// The error of a call at a server that does not start. A user may know why a server of their own does not.
    pub(super) fn not_started(&self, error: &StartError, context: &Context) -> ErrorObject {
        let is_own = self.context.user.is_some() || self.sole_client().is_some();
        let may_know_why = is_own || context.caller.rights.admin;
        if may_know_why { error.of_call(&self.spec.id) } else { error.of_users_call(&self.spec.id) }
    }

    /// A retryable error, for this reason.
    pub(crate) fn unavailable(&self, reason: &str) -> ErrorObject {
        StartError::Unreachable(reason.to_owned()).of_call(&self.spec.id)
    }

    /// The error of a call that may have run.
    pub(crate) fn may_have_run(&self, reason: &str) -> ErrorObject {
        lost_call(&self.spec.id, reason)
    }

    /// The error of a call that could not begin.
    pub(crate) fn not_begun(&self, error: DispatchError) -> ErrorObject {
        match error {
            DispatchError::Unavailable(error) => error,
            DispatchError::EraChanged => self.unavailable("its protocol era has just changed; try again"),
        }
    }
}

impl Announcer for ExternalBackend {
    fn hearers(&self) -> Arc<Hearers> {
        Arc::clone(&self.context.hearers)
    }

    fn hold_level(&self, context: &Context) -> Box<dyn HeldLevel> {
        // only servers with sessions use it
        let key = self.keys.with_session(context);
        let mut interest = self.interests.of(&key, context.requester.clone(), context.caller.user.clone());
        interest.hold_level(&context.level);
        Box::new(interest)
    }
}
