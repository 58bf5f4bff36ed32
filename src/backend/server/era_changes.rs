//! Calls to a backend whose era is unknown or has changed: they wait, or are served by the other era's protocol.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::route::Route;
use crate::{
    backend::{
        connection::{
            ServerConnection,
            discover::{DiscoverOutcome, apply_server_info, discover},
        },
        connection_key::ConnectionKey,
        error::{DispatchError, StartError},
        external_backend::ExternalBackend,
        introductions::Introductions,
        pool::{Lease, LeasedConnection},
    },
    mcp::{Call, Context, Era, ErrorObject, Method, Payload, Reply, WaitNotice},
    model::Requester,
};

/// Maximum wait of a call for the start that it brings forward.
const RETRY_PATIENCE: Duration = Duration::from_secs(10);

impl ExternalBackend {
    /// Serves a call that waits for its server to start; the client gets progress if it asked for it.
    pub(super) fn call_at_start(self: Arc<Self>, call: Call) -> Reply {
        if call.context.requester != Requester::Gateway {
            self.demand_start();
        }
        if call.context.wait.is_read() {
            let (backend, message) = (Arc::clone(&self), format!("waiting for `{}` to start", self.spec.id));
            let context = Context { wait: WaitNotice::default(), ..call.context.clone() };
            call.context.wait.set(move || (!backend.is_there(&context)).then(|| message.clone()));
        }
        self.begin_call(call)
    }

    /// Gives the start of the base connection a turn before those that nobody waits for.
    pub(in crate::backend) fn demand_start(&self) {
        if self.pool.base().connection().is_none() {
            self.context.starts.demand(&self.opener.demand);
        }
    }

    fn begin_call(self: Arc<Self>, call: Call) -> Reply {
        if let Some(era) = self.era.now() {
            let route = self.route(era, &call);
            return self.dispatch(route, call);
        }
        Reply::later(async move {
            match self.found_era(&call).await {
                Ok(era) => {
                    let route = self.route(era, &call);
                    self.dispatch(route, call)
                }
                Err(error) => Reply::failed(error),
            }
        })
    }

    /// True if this client's connection is usable.
    fn is_there(&self, context: &Context) -> bool {
        self.era.now().is_some_and(|era| self.pool.is_there(&self.key(era, context)))
    }

    /// Waits until the era is known: a listen indefinitely, other calls for `start_timeout`. The base connection tells it, or
    /// that of this client, which is opened meanwhile.
    async fn found_era(self: &Arc<Self>, call: &Call) -> Result<Era, ErrorObject> {
        if call.method == Method::Listen {
            return Ok(self.era.wait().await);
        }
        if let Some(trouble) = self.trouble_now(&call.context.requester).await {
            return Err(trouble.of_call(&self.spec.id));
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
                    // it becomes known now
                    self.era.wait().await;
                }
            }
        };
        let patience = self.spec.start_timeout;
        tokio::select! {
            biased;
            era = self.era.wait() => Ok(era),
            error = failed => Err(error.of_call(&self.spec.id)),
            () = sleep(patience) => {
                Err(self.unavailable(&format!("it is still starting after {} s", patience.as_secs())))
            }
        }
    }

    /// The reason why the server cannot be used, after the start that a client's call brings forward.
    async fn trouble_now(&self, requester: &Requester) -> Option<StartError> {
        if *requester != Requester::Gateway && self.health.is_worth_a_try() {
            let _ = timeout(self.spec.start_timeout.min(RETRY_PATIENCE), self.health.try_now()).await;
        }
        self.trouble()
    }

    /// Leases the connection of `key` at a server of this era, and opens it if needed. Waits at most `start_timeout`.
    pub(super) async fn opened(
        self: &Arc<Self>,
        (era, key): (Era, &ConnectionKey),
        context: &Context,
    ) -> Result<LeasedConnection, DispatchError> {
        let unavailable = |reason: &str| DispatchError::Unavailable(self.unavailable(reason));
        if let Some(trouble) = self.trouble_now(&context.requester).await.filter(|_| key.is_base()) {
            return Err(DispatchError::Unavailable(trouble.of_call(&self.spec.id)));
        }
        let lease = self.pool.lease(key).map_err(|full| unavailable(&full.to_string()))?;
        let found = async {
            loop {
                if let Some(other) = self.era.now().filter(|now| *now != era) {
                    return Err(DispatchError::EraChanged(other));
                }
                if !key.is_base() && lease.slot().begin(&context.client) {
                    self.open(lease.slot(), key, &context.client);
                }
                match lease.slot().wait().await {
                    Ok(Some(connection)) if connection.era() == era => return Ok(connection),
                    // of the other era and about to end, unless the server's era has changed
                    Ok(Some(connection)) if self.era.now() == Some(era) => drop(connection.over().await),
                    Ok(_) => {}
                    Err(error) => return Err(DispatchError::Unavailable(error.of_call(&self.spec.id))),
                }
            }
        };
        let patience = self.spec.start_timeout;
        let late = || unavailable(&format!("it is still starting after {} s", patience.as_secs()));
        let connection = timeout(patience, found).await.unwrap_or_else(|_| Err(late()))?;
        Ok(LeasedConnection { lease, connection })
    }

    /// Waits for a connection, since it decides on the decorators.
    pub(super) async fn wait_for_server(self: Arc<Self>, Route { era, key, ready }: Route, call: Call) -> Reply {
        match self.connection((era, &key), ready, &call.context).await {
            Ok(leased) => {
                self.crossing.set_server_tasks(leased.connection.tasks());
                self.dispatch(Route { era, key, ready: Some(leased) }, call)
            }
            Err(error) => self.reply_not_begun(error, call),
        }
    }

    /// The reply to a call that was not begun. If the server's era has changed, it is served by the other protocol. A
    /// task of the former processes is gone.
    pub(super) fn reply_not_begun(self: Arc<Self>, error: DispatchError, call: Call) -> Reply {
        match error {
            DispatchError::EraChanged(era)
                if !(call.method.is_of_core_tasks() || call.method == Method::TasksUpdate) =>
            {
                let route = self.route(era, &call);
                self.dispatch(route, call)
            }
            error => {
                self.count(&call.method, "unavailable");
                Reply::failed(self.not_begun(error))
            }
        }
    }

    /// The result of `server/discover`, asked for again if it may be out of date.
    pub(super) async fn discovered(&self, connection: &Arc<ServerConnection>) -> Option<Payload> {
        if !connection.server()?.is_fresh() {
            self.refresh_server_info(connection).await;
        }
        Some(connection.server()?.discover(&self.spec.id))
    }

    /// Asks again for server information that may be out of date. Without an answer the old one stays; if the era has
    /// changed, it is detected again.
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
