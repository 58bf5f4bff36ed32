//! Transports toward servers: how messages reach a server and come from it. Knows nothing of what they say.
//!
//! [`connect`] is the one place that knows which transports there are; everything else asks for
//! [`crate::model::TransportAbilities`].

mod fenced;
pub(crate) mod http;
mod interface;
mod line_input;
pub(crate) mod output_tail;
mod queued;
mod socket;
mod sse;
mod stdio;
mod websocket;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use interface::{
    BrokenAnswer, Exchange, Incoming, NotSent, ServerInput, ServerLocation, Transport, TransportError, UnansweredCalls,
    lost_call, well_formed,
};

use self::output_tail::OutputTail;
use super::{error::StartError, task_group::TaskGroup};
use crate::{
    model::{BackendId, BackendSpec, TransportSpec},
    support::Fence,
};

/// Dependencies of connections.
pub(crate) struct Connector<'a> {
    /// The backend, for logs.
    pub(crate) backend: &'a BackendId,
    /// The gateway's environment, of which children see a part.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// The client for HTTP.
    pub(crate) client: &'a http::Client,
    /// Owns the background tasks.
    pub(crate) tasks: &'a TaskGroup,
    /// Shared by all connections to this server.
    pub(crate) late: &'a http::LateStreams,
    /// Keeps what a process prints beside its messages.
    pub(crate) output: &'a OutputTail,
    /// Passed by everything that is sent.
    pub(crate) fence: &'a Fence,
}

/// Makes one connection. Over Streamable HTTP nothing is sent before the first request.
pub(crate) fn connect(to: &TransportSpec, with: &Connector<'_>) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let (transport, incoming) = match to {
        TransportSpec::Stdio(stdio) => stdio::connect((with.backend, with.output), stdio, with.environment, with.tasks),
        TransportSpec::Http(http) => http::connect(with.client, http, with.late),
        TransportSpec::Sse(http) => sse::connect(with.client, http, with.tasks),
        TransportSpec::WebSocket(http) => websocket::connect(with.client, http, with.tasks),
        TransportSpec::Socket(address) => Ok(socket::connect(with.backend, address, with.client, with.tasks)),
        TransportSpec::Demo => Err(StartError::NoCommand("the built-in server needs no connection".to_owned())),
    }?;
    Ok((fenced::fenced(transport, with.fence), incoming))
}

/// Advice for a server that did not start, if there is any.
pub(crate) fn advice(spec: &BackendSpec, environment: &BTreeMap<String, String>) -> Option<String> {
    match &spec.transport {
        TransportSpec::Stdio(stdio) => stdio::environment::advice(environment, &stdio.env),
        _ => None,
    }
}
