//! The transport of one backend's server, as configured or as the server was found to need it, and what each connection gets of
//! it: a process or a socket, in its turn, with what the server is told of the caller. Knows nothing of how connections are
//! shared.

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

/// The transport of one backend's server.
pub(crate) struct ServerTransport {
    spec: Arc<BackendSpec>,
    context: BackendContext,
    /// The transport in place of the configured one.
    found: RwLock<Option<TransportSpec>>,
    late_streams: LateStreams,
    /// Set once the server asks outside of the exchanges of its calls, though it has them.
    pub(super) asks_on_stream: AsksOnStream,
    /// Seen of all connections to the server.
    pub(crate) oddities: SeenOddities,
    /// Demand for the base connection.
    pub(crate) demand: Demand,
    /// The last lines of the base connection's process.
    pub(crate) output: OutputTail,
    /// Processes for clients to come.
    pub(crate) spares: Spares,
    /// The client for HTTP; the failure if the settings of this server allow none.
    client: Result<http::Client, StartError>,
}

/// A transport for a new connection.
pub(super) struct NewTransport {
    pub(super) open: OpenTransport,
    /// The turn of its process; `None` if none is started.
    pub(super) turn: Option<StartTurn>,
    pub(super) source: TransportSource,
}

/// Where a transport comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportSource {
    /// It was made for this connection.
    Made,
    /// It has a process that was started before.
    Spare,
}

// === impl ServerTransport ===

impl ServerTransport {
    /// The transport as configured.
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

    /// The transport for the next connection.
    pub(crate) fn current(&self) -> TransportSpec {
        self.found.read().clone().unwrap_or_else(|| self.spec.transport.clone())
    }

    /// True if one channel carries all messages of a connection.
    pub(crate) fn is_channel(&self) -> bool {
        self.abilities().delivery == Delivery::Channel
    }

    /// True if requests of the server come outside of the exchanges of its calls, and so name no call.
    pub(crate) fn asks_apart(&self) -> bool {
        self.is_channel() || self.asks_on_stream.is_noted()
    }

    /// The abilities of the transport for the next connection.
    pub(crate) fn abilities(&self) -> TransportAbilities {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).abilities()
    }

    /// The name of the transport for the next connection.
    pub(crate) fn name(&self) -> &'static str {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).name()
    }

    /// Stores the transport over which a connection was opened in place of the configured one.
    pub(crate) fn found(&self, transport: TransportSpec) {
        tracing::info!(server = %self.spec.id, transport = transport.name(), "the server is reached over another transport");
        *self.found.write() = Some(transport);
    }

    /// Returns to the configured transport: the server may have been replaced.
    pub(crate) fn forget(&self) {
        *self.found.write() = None;
    }

    /// A transport for a connection: a spare process, or a new one in its turn.
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

    /// Starts the spare processes that are missing, one after the other, after all starts that somebody waits for. If one
    /// cannot be started, the next client tries.
    pub(crate) async fn start_spares(&self) {
        while let Some(start) = self.spares.claim() {
            let to = self.current();
            let _turn = self.context.starts.take(self.context.user.clone(), Demand::default()).await;
            let output = self.output.another(None);
            let connected = self.connector(&output).and_then(|with| transport::connect(&to, &with));
            let Ok(connected) = connected else { return };
            start.keep(SpareProcess::fresh(to, connected));
        }
    }

    /// Waits for the turn to start a process, if the transport needs one. Connections for clients are waited for.
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
        // the status shows the base connection alone
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

    /// The transport `to` for a connection of this caller; `None` is the gateway itself.
    ///
    /// # Errors
    ///
    /// If the server is to be told by a JWT, and this process cannot sign.
    fn told_of(&self, caller: Option<&CallerIdentity>, to: &TransportSpec) -> Result<TransportSpec, StartError> {
        // a server that moved elsewhere is told nothing there
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
        let Some(statement) = statement else { return Ok(disclosure.applied(to.clone(), caller, None)) };
        let signer = self.context.signer.as_ref().ok_or_else(|| {
            StartError::Refused(
                "`identity = \"jwt\"` needs a gateway that has signing keys: start it with `lockkeeper serve`"
                    .to_owned(),
            )
        })?;
        let token = IdentityToken::new(statement, caller, signer, &self.context.clock);
        Ok(disclosure.applied(to.clone(), caller, Some(token)))
    }
}

/// The number of processes to keep ready: none if each is told for whom it runs.
fn wanted_spares(spec: &BackendSpec) -> usize {
    if spec.transport.starts_process() && spec.disclosure.is_none() { spec.spares } else { 0 }
}

/// The client for HTTP: that of all servers, unless this one has settings of its own; none if its configuration is not
/// complete.
fn http_client(spec: &BackendSpec, context: &BackendContext) -> Result<http::Client, StartError> {
    if let Some(fault) = spec.auth.fault() {
        return Err(StartError::Misconfigured(fault));
    }
    let Some(network) = spec.transport.network() else { return Ok(context.client.clone()) };
    http::Client::of_server(network, &context.environment).map_err(|error| StartError::Refused(error.to_string()))
}
