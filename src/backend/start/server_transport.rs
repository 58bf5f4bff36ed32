//! Transport of one backend's server: as configured, or as the server turned out to need it. Makes a process or a
//! socket for each connection, in turn, and adds the caller's identity if the server receives it.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{
    connection_start::ConnectionStart,
    spares::{SpareProcess, Spares},
    start_turns::{Demand, StartTurn},
};
use crate::{
    backend::{
        connection::{calls::AsksOnStream, oddities::SeenOddities, receive::OpenTransport},
        context::BackendContext,
        error::StartError,
        transport::{
            self, Incoming, Transport,
            connector::Connector,
            http::{self, LateStreams},
            output_tail::OutputTail,
        },
    },
    model::{BackendSpec, CallerIdentity, Delivery, IdentityForm, IdentityToken, TransportAbilities, TransportSpec},
};

pub(crate) struct ServerTransport {
    spec: Arc<BackendSpec>,
    context: BackendContext,
    /// Transport that replaces the configured one, if any.
    found: RwLock<Option<TransportSpec>>,
    late_streams: LateStreams,
    /// Set once the server sends a request outside of an exchange during a call, though calls have exchanges.
    pub(super) asks_on_stream: AsksOnStream,
    /// Odd behaviour on any of the connections.
    pub(crate) oddities: SeenOddities,
    /// Set while a call waits for the base connection.
    pub(crate) demand: Demand,
    /// Last lines that the base connection's process printed.
    pub(crate) output: OutputTail,
    /// Processes started before clients need them.
    pub(crate) spares: Spares,
    /// The HTTP client, or the error if this server's settings allow none.
    client: Result<http::Client, StartError>,
}

/// A transport for a new connection.
pub(super) struct NewTransport {
    pub(super) open: OpenTransport,
    /// The turn of its process; `None` if none was started.
    pub(super) turn: Option<StartTurn>,
    pub(super) source: TransportSource,
}

/// Origin of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportSource {
    /// Newly made for this connection.
    Made,
    /// A process that was started earlier.
    Spare,
}

// === impl ServerTransport ===

impl ServerTransport {
    /// Starts with the configured transport.
    pub(super) fn new(spec: &Arc<BackendSpec>, context: &BackendContext) -> Self {
        Self {
            spec: Arc::clone(spec),
            context: context.clone(),
            found: RwLock::default(),
            late_streams: LateStreams::default(),
            asks_on_stream: AsksOnStream::default(),
            oddities: SeenOddities::default(),
            demand: Demand::default(),
            output: OutputTail::hiding(spec.disclosure.as_ref().map_or(&[], |disclosure| &disclosure.hidden))
                .kept_in(&context.kept, context.user.as_ref()),
            spares: Spares::new(wanted_spares(spec)),
            client: http_client(spec, context),
        }
    }

    /// Transport for the next connection.
    pub(crate) fn current(&self) -> TransportSpec {
        self.found.read().clone().unwrap_or_else(|| self.spec.transport.clone())
    }

    /// True if one channel carries all messages of a connection, in both directions.
    pub(crate) fn is_channel(&self) -> bool {
        self.abilities().delivery == Delivery::Channel
    }

    /// True if the server sends requests outside of exchanges, so that they name no call.
    pub(crate) fn asks_apart(&self) -> bool {
        self.is_channel() || self.asks_on_stream.is_noted()
    }

    /// Abilities of the transport in use.
    pub(crate) fn abilities(&self) -> TransportAbilities {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).abilities()
    }

    /// Name of [`ServerTransport::current`], for status and logs.
    pub(crate) fn name(&self) -> &'static str {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).name()
    }

    /// Replaces the configured transport with one over which a connection was opened.
    pub(crate) fn found(&self, transport: TransportSpec) {
        tracing::info!(server = %self.spec.id, transport = transport.name(), "the server is reached over another transport");
        *self.found.write() = Some(transport);
    }

    /// Returns to the configured transport: the server may have been replaced.
    pub(crate) fn forget(&self) {
        *self.found.write() = None;
    }

    /// Makes a transport for a connection: from a spare process, or a new one in its turn.
    pub(super) async fn new_transport(
        &self,
        to: &TransportSpec,
        start: ConnectionStart<'_>,
    ) -> Result<NewTransport, StartError> {
        let key = start.key;
        if !key.is_base()
            && let Some((transport, incoming)) = self.spares.take(to)
        {
            let open = OpenTransport::fresh(transport, incoming);
            return Ok(NewTransport { open, turn: None, source: TransportSource::Spare });
        }
        let turn = self.turn(to, start).await?;
        let (transport, incoming) = self.connect(to, start)?;
        Ok(NewTransport { open: OpenTransport::fresh(transport, incoming), turn, source: TransportSource::Made })
    }

    /// Starts missing spare processes, one at a time, after all starts that calls wait for. If one fails, the next
    /// client's connection tries again.
    pub(crate) async fn start_spares(&self) {
        while let Some(start) = self.spares.claim() {
            let to = self.current();
            let _turn = self.context.starts.take(self.context.user.clone(), Demand::default()).await;
            let output = self.output.another(None);
            let connected = self.connector(&output).and_then(|with| transport::connect(&to, &with));
            let Ok((transport, incoming)) = connected else { return };
            start.keep(SpareProcess::fresh(to, transport, incoming));
        }
    }

    /// Waits for the turn to start a process, if the transport starts one. Starts for clients have demand from the
    /// beginning.
    async fn turn(
        &self,
        to: &TransportSpec,
        ConnectionStart { key, user, .. }: ConnectionStart<'_>,
    ) -> Result<Option<StartTurn>, StartError> {
        if !to.starts_process() {
            return Ok(None);
        }
        let demand = if key.is_base() { self.demand.clone() } else { Demand::present() };
        let user = user.or(self.context.user.as_ref()).cloned();
        tokio::select! {
            turn = self.context.starts.take(user, demand) => Ok(Some(turn)),
            () = self.context.tasks.end().cancelled() => Err(StartError::Stopping),
        }
    }

    fn connect(
        &self,
        to: &TransportSpec,
        ConnectionStart { key, user, .. }: ConnectionStart<'_>,
    ) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
        let owner = user.filter(|user| key.is_of_user(user));
        // the status shows only the base connection's output
        let output = if key.is_base() { self.output.clone() } else { self.output.another(owner) };
        output.clear();
        let to = self.told_of(key.identity.as_ref(), to)?;
        transport::connect(&to, &self.connector(&output)?)
    }

    fn connector<'a>(&'a self, output: &'a OutputTail) -> Result<Connector<'a>, StartError> {
        let BackendContext { environment, spawner, tasks, fence, budget, .. } = &self.context;
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let account = budget.server(self.spec.id.as_str());
        let (spec, late) = (&*self.spec, &self.late_streams);
        Ok(Connector { backend: &spec.id, spec, environment, spawner, client, tasks, late, output, fence, account })
    }

    /// The transport `to` with the caller's identity for the server; without a caller, the gateway's.
    ///
    /// # Errors
    ///
    /// If the server receives a JWT and this process has no signing keys.
    fn told_of(&self, caller: Option<&CallerIdentity>, to: &TransportSpec) -> Result<TransportSpec, StartError> {
        // a server that has moved elsewhere receives no identity there
        let Some(disclosure) = self.spec.disclosure.as_ref().filter(|_| to.server() == self.spec.transport.server())
        else {
            return Ok(to.clone());
        };
        let gateway = CallerIdentity::gateway();
        let caller = caller.unwrap_or(&gateway);
        let statement = disclosure.identity.as_ref().and_then(|header| match &header.form {
            IdentityForm::Signed { audience } => Some((header.name.as_str(), audience.as_str())),
            IdentityForm::Plain => None,
        });
        let Some((header, audience)) = statement else { return Ok(disclosure.applied(to.clone(), caller, None)) };
        let signer = self.context.signer.as_ref().ok_or_else(|| {
            StartError::Refused(
                "`identity = \"jwt\"` needs a gateway that has signing keys: start it with `lockkeeper serve`"
                    .to_owned(),
            )
        })?;
        let token = IdentityToken::new(header, audience, caller, signer, &self.context.clock);
        Ok(disclosure.applied(to.clone(), caller, Some(token)))
    }
}

/// Number of processes to keep ready: none if each process receives its caller's identity.
fn wanted_spares(spec: &BackendSpec) -> usize {
    if spec.transport.starts_process() && spec.disclosure.is_none() { spec.spares } else { 0 }
}

/// The shared HTTP client, or one with this server's own network settings; an error if its configuration is incomplete.
fn http_client(spec: &BackendSpec, context: &BackendContext) -> Result<http::Client, StartError> {
    if let Some(fault) = spec.auth.fault() {
        return Err(StartError::Misconfigured(fault));
    }
    let Some(network) = spec.transport.network() else { return Ok(context.client.clone()) };
    http::Client::of_server(network, &context.environment).map_err(|error| StartError::Refused(error.to_string()))
}
