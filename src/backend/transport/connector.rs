//! Dependencies of a new connection, over any transport.

use std::collections::BTreeMap;

use super::{http, output_tail::OutputTail, stdio::spawner::Spawner};
use crate::{
    backend::task_group::TaskGroup,
    model::{BackendId, BackendSpec},
    support::{Account, Fence},
};

pub(crate) struct Connector<'a> {
    /// The backend, for logs.
    pub(crate) backend: &'a BackendId,
    /// Configuration of the backend. The connection may use another transport than this says.
    pub(crate) spec: &'a BackendSpec,
    /// The gateway's environment; child processes get part of it.
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) spawner: &'a Spawner,
    pub(crate) client: &'a http::Client,
    pub(crate) tasks: &'a TaskGroup,
    /// Shared by all connections to this server.
    pub(crate) late: &'a http::LateStreams,
    /// Keeps what a process prints outside of its messages.
    pub(crate) output: &'a OutputTail,
    /// Everything sent waits here until this replica may send.
    pub(crate) fence: &'a Fence,
    /// Account of the server; it pays for messages that belong to no call.
    pub(crate) account: Account,
}
