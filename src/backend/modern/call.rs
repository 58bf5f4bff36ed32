//! One request at one server of 2026-07-28: its envelope, its id, its progress token, its silence, its cancellation.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{Peer, peer::SPOKEN};
use crate::{
    backend::{
        pending::{cancellation, timed_out},
        transport::{NotSent, TransportError},
    },
    mcp::{
        ClientInfo, ErrorObject, Event, Facts, Farewell, Level, Message, Method, Outcome, Payload, RequestId, meta,
        mirrored::Mirror,
        translate::{Kind, Profile, with_envelope, without_invalid_header_params},
    },
    model::{Delivery, HeaderParams},
};

/// What a connection knows of a request that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) method: Method,
    /// The client's own progress token, where it gave one.
    pub(super) token: Option<Bytes>,
    /// Which log messages it is to give.
    pub(super) level: Option<Level>,
}

/// What is asked, and by whom.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The method.
    pub(crate) method: Method,
    /// Its parameters.
    pub(crate) params: Payload,
    /// Who asks.
    pub(crate) client: Arc<ClientInfo>,
    /// Which log messages it is to give, where the parameters do not say.
    pub(crate) level: Option<Level>,
    /// What of the parameters is mirrored beside the body.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// What becomes of members that the server's version does not define.
    pub(crate) profile: Profile,
    /// What the server is told where the request is given up.
    pub(crate) farewell: Farewell,
}

/// The caller's side of a request. Dropping it before the end cancels the request at the server.
struct Ticket {
    peer: Arc<Peer>,
    id: u64,
    events: mpsc::Receiver<Event>,
    farewell: Farewell,
}

// === impl Asked ===

impl Asked {
    /// What the gateway itself asks.
    pub(crate) fn of_gateway(method: Method, params: Payload) -> Self {
        let client = Arc::new(ClientInfo::gateway());
        let (profile, farewell) = (Profile::default(), Farewell::default());
        Self { method, params, client, level: None, mirror: None, profile, farewell }
    }

    /// The parameters as this server reads them, in their envelope.
    ///
    /// # Errors
    ///
    /// Where the server's version has no form for them.
    fn in_envelope(&self) -> Result<Payload, ErrorObject> {
        let facts =
            Facts { profile: self.profile, client: Some(&*self.client), ..Facts::new(Kind::Request, &self.method) };
        let params = self.params.clone().into_revision(SPOKEN, &facts).map_err(|refusal| {
            refusal.report();
            refusal.error()
        })?;
        Ok(with_envelope(params, &self.client, self.level))
    }
}

// === impl Peer ===

impl Peer {
    /// Makes one request. The events end with [`Event::Done`], or with [`NotSent`] as the only one. One that stays silent
    /// for longer than `patience` is cancelled and fails.
    pub(crate) fn call(
        self: &Arc<Self>,
        asked: Asked,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let (peer, lists_tools) = (Arc::clone(self), asked.method == Method::ToolsList);
        self.exchange(asked, patience).map(move |event| match event {
            // 2026-07-28, tools: a client over HTTP leaves out the tools whose annotations of headers are invalid
            Ok(Event::Done(Outcome::Complete(result))) if lists_tools && peer.mirrors() => {
                let result = without_invalid_header_params(result).of_backend(&peer.about.backend);
                Ok(Event::Done(Outcome::Complete(result)))
            }
            Ok(Event::Done(Outcome::Failed(error))) if is_of_another_version(&error) => {
                // over HTTP it may be one of several machines that says so: it is asked whether all do
                if peer.about.abilities.delivery == Delivery::Channel {
                    peer.end("the server no longer speaks 2026-07-28");
                }
                Err(NotSent("the server speaks another version now".to_owned()))
            }
            Ok(event) => Ok(event),
            Err(error) => match error.of_call(&peer.about.backend) {
                Ok(error) => Ok(Event::Done(Outcome::Failed(error))),
                Err(NotSent(reason)) => {
                    peer.end(&reason);
                    Err(NotSent(reason))
                }
            },
        })
    }

    /// The same without judging what becomes of the connection.
    pub(super) fn exchange(
        self: &Arc<Self>,
        asked: Asked,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, TransportError>> + Send + use<> {
        let peer = Arc::clone(self);
        async_stream::stream! {
            let params = match asked.in_envelope() {
                Ok(params) => params,
                Err(error) => {
                    yield Ok(Event::Done(Outcome::Failed(error)));
                    return;
                }
            };
            let token = meta::progress_token(&params);
            let level = meta::log_level(&params);
            let running = Running { method: asked.method.clone(), token: token.clone(), level };
            let mut ticket = match Ticket::open(peer, running) {
                Ok(ticket) => ticket,
                Err(reason) => {
                    yield Err(TransportError::Gone(reason));
                    return;
                }
            };
            ticket.farewell = asked.farewell;
            // the id serves as the token as well: both are unique on this connection (design rule 1)
            let params = if token.is_some() { meta::with_progress_token(&params, &ticket.id.to_string()) } else { params };
            let request = Message::Request { id: RequestId::number(ticket.id), method: asked.method, params: params.json().clone() };
            let transport = Arc::clone(&ticket.peer.transport);
            let mut exchange = transport.request(request, asked.mirror).fuse();
            let mut silent_until = Instant::now() + patience;
            loop {
                let step = tokio::select! {
                    biased;
                    event = ticket.events.recv() => Some(Ok(event.unwrap_or_else(|| ticket.lost()))),
                    arrived = exchange.select_next_some(), if !exchange.is_done() => ticket.arrived(arrived),
                    () = sleep_until(silent_until) => Some(Ok(timed_out(&ticket.peer.about.backend, patience))),
                };
                silent_until = Instant::now() + patience;
                let Some(step) = step else { continue };
                let is_over = !matches!(step, Ok(Event::Notified(_)));
                if is_over {
                    // what came in the same moment is not lost with the request
                    while let Ok(event) = ticket.events.try_recv() {
                        if matches!(event, Event::Notified(_)) {
                            yield Ok(event);
                        }
                    }
                }
                yield step;
                if is_over {
                    return;
                }
            }
        }
    }

    /// Whether parameters are mirrored in headers.
    fn mirrors(&self) -> bool {
        self.about.abilities.header_params == HeaderParams::Mirrored
    }
}

/// Whether a server says that it does not speak the version of the request: it has not acted on it.
fn is_of_another_version(error: &ErrorObject) -> bool {
    error.revision().is_some() && error.code() == ErrorObject::UNSUPPORTED_VERSION
}

// === impl Ticket ===

impl Ticket {
    fn open(peer: Arc<Peer>, running: Running) -> Result<Self, String> {
        let (id, events) = peer.enter(running)?;
        Ok(Self { peer, id, events, farewell: Farewell::default() })
    }

    /// What came on the exchange of this request.
    fn arrived(&self, arrived: Result<Message, TransportError>) -> Option<Result<Event, TransportError>> {
        match arrived {
            Ok(message) => {
                let received = self.peer.receive(message, Some(self.id))?;
                let others = |call, event| _ = self.peer.calls.deliver(call, event);
                self.peer.calls.own(self.id, received, others).map(Ok)
            }
            Err(error) => {
                self.peer.calls.close(self.id);
                Some(Err(error))
            }
        }
    }

    fn lost(&self) -> Event {
        Event::Done(Outcome::Failed(self.peer.lost_error()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let running = self.peer.calls.close(self.id);
        if let Some(running) = running.filter(|_| !self.peer.is_over()) {
            self.peer.given_up(self.id, running.level);
            self.peer.background.tell(cancellation(self.id, &self.farewell));
        }
    }
}
