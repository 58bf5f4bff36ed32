//! One backend as a [`Server`]: selects the connection for a call, and wraps the call in the decorators that adapt its
//! client to this server. [`EraServer`] makes the call.

mod attempts;
pub(crate) mod call_meters;
mod client_connections;
mod era_server;
pub(crate) mod external_backend;
mod listen;
pub(crate) mod user_servers;
mod waiting;

use std::sync::Arc;

use futures_util::stream;

use self::{attempts::Route, era_server::EraServer, external_backend::ExternalBackend};
use super::{
    error::DispatchError,
    sharing::{connection_key::ConnectionKey, connection_slot::LeasedConnection},
    start::introductions::Introductions,
};
use crate::{
    crossing::Pair,
    mcp::{Call, Context, Era, Reply, Server},
    model::OnLoss,
};

/// The interface of a backend to the gateway.
#[derive(Clone)]
pub(crate) struct BackendServer(pub(crate) Arc<ExternalBackend>);

impl Server for BackendServer {
    fn call(&self, call: Call) -> Reply {
        let Self(backend) = self;
        if call.context.heard.is_some() {
            return self.pass_on(call);
        }
        let Some(era) = backend.era.now() else { return Arc::clone(backend).call_once_era_is_known(call) };
        let route = backend.route(era, &call);
        if route.ready.is_none() && !backend.pool.is_there(&route.key) {
            backend.note_wait(&call);
        }
        let server = EraServer { backend: Arc::clone(backend), era };
        match backend.crossing.pair(&call, era) {
            Pair::Alike => server.serve(route, call),
            Pair::Differ(decorators) => backend.crossing.serve(decorators, server, self.clone(), call),
            Pair::NotMet => Reply::later(Arc::clone(backend).call_once_met(route, call)),
            // the call may have run up to the server request that it waits for
            Pair::Gone => Reply::failed(backend.may_have_run("its server was replaced while it waited for input")),
        }
    }

    fn expect(&self, client: &Context) {
        Introductions(&self.0).expect(client);
    }
}

impl BackendServer {
    /// Passes an announced event to the client of this listen, through the decorators for the pair.
    fn pass_on(&self, call: Call) -> Reply {
        let Self(backend) = self;
        // like a listen before the server's era is known: no event arrives
        let Some(era) = backend.era.now() else { return nothing() };
        let server = EraServer { backend: Arc::clone(backend), era };
        match backend.crossing.pair(&call, era) {
            Pair::Alike => server.call(call),
            Pair::Differ(decorators) => backend.crossing.serve(decorators, server, self.clone(), call),
            Pair::NotMet | Pair::Gone => nothing(),
        }
    }
}

/// The reply to a listen without an event to pass on.
fn nothing() -> Reply {
    Reply::new(stream::empty())
}

impl ExternalBackend {
    /// The connection for a client's call, if the server is of the era `era`. A list is asked of the connection that
    /// last reported a change of it.
    fn route(&self, era: Era, call: &Call) -> Route {
        let key = self.key(era, &call.context);
        let ready = |key: &ConnectionKey| self.pool.ready(key).filter(|ready| ready.connection.era() == era);
        if let Some(changed) = self.listens.changed_at(&key, &call.method)
            && let Some(ready) = ready(&changed)
        {
            return Route { era, key: changed, ready: Some(ready) };
        }
        let ready = ready(&key);
        Route { era, key, ready }
    }

    /// Key of a client's connection, if the server is of the era `era`.
    pub(super) fn key(&self, era: Era, context: &Context) -> ConnectionKey {
        self.keys.key(era, context)
    }

    /// Leases the connection of `key`: `ready` if it is still usable, else an open one or a new one.
    pub(super) async fn connection(
        self: &Arc<Self>,
        era: Era,
        key: &ConnectionKey,
        ready: Option<LeasedConnection>,
        context: &Context,
    ) -> Result<LeasedConnection, DispatchError> {
        let is_usable = |leased: &LeasedConnection| leased.connection.era() == era && !leased.connection.is_over();
        let leased = match ready.or_else(|| self.pool.ready(key)).filter(is_usable) {
            Some(leased) => leased,
            None => self.opened(era, key, context).await?,
        };
        if let (OnLoss::End, Some(session)) = (self.spec.on_loss, context.requester.session())
            && self.can_lose_state()
        {
            leased.lease.slot().bind(session);
        }
        Ok(leased)
    }

    /// True if the server may keep state about its clients. Without sessions and on exchanges, a lost connection takes
    /// no state with it.
    fn can_lose_state(&self) -> bool {
        self.era.has_sessions() || self.spec.is_channel()
    }
}
