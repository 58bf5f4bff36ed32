//! Calls to a backend whose era is unknown or has changed, or whose server's tasks are unknown: they wait, then begin
//! again.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    BackendServer,
    attempts::Route,
    call_meters::{CallEnd, RunningCall},
    external_backend::ExternalBackend,
};
use crate::{
    backend::{
        connection::{
            ServerConnection,
            discover::{DiscoverOutcome, apply_server_info, discover},
        },
        error::{DispatchError, StartError},
        sharing::{
            connection_key::ConnectionKey,
            connection_slot::{Lease, LeasedConnection},
            room::Full,
        },
        start::{era::AssumedEra, introductions::Introductions, opener::ClientOpening},
    },
    mcp::{Call, Context, Era, ErrorObject, Method, Payload, Reply, Server as _, WaitNotice},
    model::Requester,
};

/// Maximum wait of a call for a start that it brings forward.
const RETRY_PATIENCE: Duration = Duration::from_secs(10);

impl ExternalBackend {
    /// Prepares for a call that waits for its server to start: the start gets an early turn, and the client gets
    /// progress if it asked for it.
    pub(super) fn note_wait(self: &Arc<Self>, call: &Call) {
        if call.context.requester != Requester::Gateway {
            self.demand_start();
        }
        if call.context.wait.is_read() {
            let (backend, message) = (Arc::clone(self), format!("waiting for `{}` to start", self.spec.id));
            let context = Context { wait: WaitNotice::default(), ..call.context.clone() };
            call.context.wait.set(move || (!backend.is_there(&context)).then(|| message.clone()));
        }
    }

    /// Moves the start of the base connection ahead of starts that no call waits for.
    pub(crate) fn demand_start(&self) {
        if self.pool.base().connection().is_none() {
            self.context.starts.demand(&self.opener.transport.demand);
        }
    }

    /// Serves a call once the server's era is known.
    pub(super) fn call_once_era_is_known(self: Arc<Self>, call: Call) -> Reply {
        self.note_wait(&call);
        Reply::later(async move {
            match self.found_era(&call).await {
                Ok(()) => BackendServer(self).call(call),
                Err(error) => Reply::failed(error),
            }
        })
    }

    /// True if this client's connection is usable.
    fn is_there(&self, context: &Context) -> bool {
        self.era.now().is_some_and(|era| self.pool.is_there(&self.key(era, context)))
    }

    /// Waits until the era is known: a listen without limit, other calls for `start_timeout`. The era shows on the base
    /// connection, or on this client's own, which is opened at the same time.
    async fn found_era(self: &Arc<Self>, call: &Call) -> Result<(), ErrorObject> {
        if call.method == Method::Listen {
            self.era.wait().await;
            return Ok(());
        }
        let running = RunningCall::begin(&self.meters);
        let found = self.era_in_time(call).await;
        found.inspect_err(|_| running.ended(&call.method, CallEnd::Unavailable))
    }

    /// Waits for the era, for at most `start_timeout`.
    async fn era_in_time(self: &Arc<Self>, call: &Call) -> Result<(), ErrorObject> {
        if let Some(trouble) = self.trouble_now(&call.context.requester).await {
            return Err(self.not_started(&trouble, &call.context));
        }
        let own = Introductions(self).begin(&call.context);
        let failed = async {
            loop {
                if let Err(error) = self.pool.base().wait().await {
                    match own.as_ref().map(Lease::slot).filter(|slot| slot.is_starting()) {
                        Some(own) => drop(own.wait().await),
                        None => return error,
                    }
                } else {
                    // the era is about to be set
                    self.era.wait().await;
                }
            }
        };
        let patience = self.spec.start_timeout;
        tokio::select! {
            biased;
            () = self.era.wait() => Ok(()),
            error = failed => Err(self.not_started(&error, &call.context)),
            () = sleep(patience) => {
                Err(self.unavailable(&format!("it is still starting after {} s", patience.as_secs())))
            }
        }
    }

    /// Why the server cannot be used. A client's call first brings the next start forward and waits for it.
    async fn trouble_now(&self, requester: &Requester) -> Option<StartError> {
        if *requester != Requester::Gateway && self.health.is_worth_a_try() {
            let _ = timeout(self.spec.start_timeout.min(RETRY_PATIENCE), self.health.try_now()).await;
        }
        self.trouble()
    }

    /// Leases the connection of `key`, and opens it if needed. Waits for at most `start_timeout`.
    pub(super) async fn opened(
        self: &Arc<Self>,
        era: Era,
        key: &ConnectionKey,
        context: &Context,
    ) -> Result<LeasedConnection, DispatchError> {
        let unavailable = |reason: &str| DispatchError::Unavailable(self.unavailable(reason));
        if let Some(trouble) = self.trouble_now(&context.requester).await.filter(|_| key.is_base()) {
            return Err(DispatchError::Unavailable(self.not_started(&trouble, context)));
        }
        let lease = self.leased(key, context).await.map_err(|full| unavailable(&full.to_string()))?;
        let found = async {
            loop {
                if self.era.now().is_some_and(|now| now != era) {
                    return Err(DispatchError::EraChanged);
                }
                if !key.is_base() && lease.slot().begin(&context.client) {
                    self.open(lease.slot(), key, ClientOpening::of(AssumedEra::Known(era), context));
                }
                match lease.slot().wait().await {
                    Ok(Some(connection)) if connection.era() == era => return Ok(connection),
                    // it belongs to the other era and is about to end, unless the era has just changed
                    Ok(Some(connection)) if self.era.now() == Some(era) => drop(connection.over().await),
                    Ok(_) => {}
                    Err(error) => return Err(DispatchError::Unavailable(self.not_started(&error, context))),
                }
            }
        };
        let patience = self.spec.start_timeout;
        let late = || unavailable(&format!("it is still starting after {} s", patience.as_secs()));
        let connection = timeout(patience, found).await.unwrap_or_else(|_| Err(late()))?;
        Ok(LeasedConnection { lease, connection })
    }

    /// Leases the slot of `key`. While all places are taken, the client gets progress notifications.
    async fn leased(&self, key: &ConnectionKey, context: &Context) -> Result<Lease, Full> {
        let message = format!("waiting for a free session of `{}`", self.spec.id);
        let mut has_waited = false;
        let waits = || {
            has_waited = true;
            context.wait.set(move || Some(message.clone()));
        };
        let lease = self.pool.lease_in_turn(key, &context.caller.user, waits).await;
        if has_waited {
            context.wait.set(|| None);
        }
        lease
    }

    /// Serves a call once a connection has shown how the server handles tasks, which determines the decorators.
    pub(super) async fn call_once_met(self: Arc<Self>, Route { era, key, ready }: Route, call: Call) -> Reply {
        let running = RunningCall::begin(&self.meters);
        match self.connection(era, &key, ready, &call.context).await {
            Ok(leased) => {
                drop(running);
                self.crossing.set_server_tasks(leased.connection.tasks());
                BackendServer(self).call(call)
            }
            Err(error) => self.reply_not_begun(error, call, &running),
        }
    }

    /// Serves a call as if it had just arrived, because the server's era has changed.
    pub(super) fn call_again(self: Arc<Self>, call: Call) -> Reply {
        BackendServer(self).call(call)
    }

    /// The reply to a call that could not begin. If the server's era has changed, the call is served again by the other
    /// protocol, except for a request about a task: the task ended with the earlier process.
    pub(super) fn reply_not_begun(self: Arc<Self>, error: DispatchError, call: Call, running: &RunningCall) -> Reply {
        let is_about_task = call.method.is_of_core_tasks() || call.method == Method::TasksUpdate;
        if matches!(error, DispatchError::EraChanged) && !is_about_task {
            return self.call_again(call);
        }
        running.ended(&call.method, CallEnd::Unavailable);
        Reply::failed(self.not_begun(error))
    }

    /// The result of `server/discover`. Asks the server again if the stored one has expired.
    pub(super) async fn discovered(&self, connection: &Arc<ServerConnection>) -> Option<Payload> {
        if !connection.server()?.is_fresh() {
            self.refresh_server_info(connection).await;
        }
        Some(connection.server()?.discover(&self.spec.id))
    }

    /// Asks a server behind an address for its information again. Without an answer the old information stays. If the
    /// era has changed, it is detected again.
    pub(super) async fn refresh_server_info(&self, connection: &Arc<ServerConnection>) {
        if self.spec.is_channel() {
            return;
        }
        match discover(connection, self.spec.start_timeout).await {
            DiscoverOutcome::Modern(info) => {
                self.crossing.set_server_tasks(info.tasks());
                apply_server_info(connection, info);
            }
            DiscoverOutcome::Legacy(reason) => {
                self.era.doubt(connection.era());
                connection.end(&format!("the server no longer speaks 2026-07-28: {reason}"));
            }
            DiscoverOutcome::Unusable(error @ StartError::Incompatible { .. }) => connection.end(&error.to_string()),
            DiscoverOutcome::Ended(_) | DiscoverOutcome::Unusable(_) | DiscoverOutcome::Nothing(_) => {}
        }
    }
}
