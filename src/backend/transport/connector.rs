//! Dependencies of connections that are not over Streamable HTTP alone.

use std::collections::BTreeMap;

use super::{http, output_tail::OutputTail, stdio::spawner::Spawner};
use crate::{
    backend::task_group::TaskGroup,
    model::{BackendId, BackendSpec},
    support::{Account, Fence},
};

/// Dependencies of connections.
pub(crate) struct Connector<'a> {
    /// The backend, for logs.
    pub(crate) backend: &'a BackendId,
    /// Its configuration. The transport that is connected may be another one.
    pub(crate) spec: &'a BackendSpec,
    /// The gateway's environment, of which children see a part.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Starts processes.
    pub(crate) spawner: &'a Spawner,
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
    /// The account of the server, which pays for what nobody asked it for.
    pub(crate) account: Account,
}
