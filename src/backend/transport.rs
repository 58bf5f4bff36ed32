//! Transports toward servers: how messages reach a server and return from it.
//!
//! Only [`connect`] knows all transports; other code asks for [`crate::model::TransportAbilities`].

pub(crate) mod connector;
mod fenced;
pub(crate) mod http;
mod interface;
pub(crate) mod kept_output;
mod line_input;
mod outgoing;
pub(crate) mod output_tail;
mod queued;
mod sloppy;
mod socket;
mod sse;
mod stdio;
mod websocket;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use interface::{
    BrokenAnswer, Exchange, Incoming, NotSent, RequestTerms, ServerInput, ServerLocation, Transport, TransportError,
    UnansweredCalls, lost_call, well_formed,
};

use self::connector::Connector;
pub(crate) use self::stdio::{contained, running_programs::RunningPrograms, spawner::Spawner};
use super::error::StartError;
use crate::model::{BackendSpec, TransportSpec};

/// Opens a connection over the transport `to`. Over Streamable HTTP nothing is sent before the first request.
pub(crate) fn connect(to: &TransportSpec, with: &Connector<'_>) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let (transport, incoming) = match to {
        TransportSpec::Stdio(stdio) => stdio::connect(with, stdio),
        TransportSpec::Http(http) => http::connect(http, with.backend, with.client, with.late, &with.account),
        TransportSpec::Sse(http) => sse::connect(with, http),
        TransportSpec::WebSocket(http) => websocket::connect(with, http),
        TransportSpec::Socket(address) => Ok(socket::connect(with, address)),
        TransportSpec::Demo => Err(StartError::NoCommand("the built-in server needs no connection".to_owned())),
    }?;
    Ok((fenced::fenced(transport, with.fence), incoming))
}

/// Advice about a server that did not start, if there is any.
pub(crate) fn advice(spec: &BackendSpec, environment: &BTreeMap<String, String>) -> Option<String> {
    match &spec.transport {
        TransportSpec::Stdio(stdio) => stdio::environment::advice(environment, &stdio.env),
        _ => None,
    }
}
