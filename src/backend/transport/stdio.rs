//! A server that is a child process and speaks on its standard input and output (all versions, transports: stdio).

pub(crate) mod environment;
mod process;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use tokio::{sync::mpsc, sync::watch, time::timeout};
use tokio_util::{codec::FramedRead, sync::CancellationToken};

use self::process::{Process, Tail};
use super::interface::{Arrival, Incoming, Transport, TransportError, messages};
use crate::{
    backend::{error::StartError, task_group::TaskGroup},
    mcp::Message,
    model::{BackendId, StdioSpec},
    wire::lines::{Lines, line},
};

/// How many messages wait for a child that does not read. Callers wait beyond that, each for itself.
const QUEUE: usize = 64;
/// How long the status of a child is waited for that closed its standard output.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// The connection to one child process.
pub(crate) struct StdioTransport {
    queue: mpsc::Sender<Bytes>,
    tail: Tail,
    stop: CancellationToken,
    exit: watch::Receiver<Option<String>>,
}

/// Starts the child process.
pub(crate) fn connect(
    backend: &BackendId,
    spec: &StdioSpec,
    environment: &BTreeMap<String, String>,
    tasks: &TaskGroup,
) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let environment = environment::of_child(environment, &spec.env);
    let (process, stdout) = Process::start(backend, spec, &environment)?;
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let (exited, exit) = watch::channel(None);
    let stop = tasks.end().child_token();
    let tail = process.tail();
    tasks.spawn(process.run(outgoing, stop.clone(), exited));
    let link = StdioTransport { queue, tail, stop, exit: exit.clone() };
    Ok((Arc::new(link), incoming(FramedRead::new(stdout, Lines::default()), backend.clone(), exit)))
}

/// The messages that the child writes, and why they end.
fn incoming(
    lines: FramedRead<tokio::process::ChildStdout, Lines>,
    backend: BackendId,
    exit: watch::Receiver<Option<String>>,
) -> Incoming {
    let mut warned = false;
    let read = lines.flat_map(move |line| {
        let arrivals = match line {
            Ok(line) if line.first().is_some_and(|first| matches!(first, b'{' | b'[')) => {
                messages(&line).into_iter().map(Arrival::Message).collect()
            }
            Ok(line) => {
                let text: String = String::from_utf8_lossy(&line).chars().take(200).collect();
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(%backend, "the server writes something else than messages on its standard output");
                }
                tracing::debug!(%backend, text, "passed over on standard output");
                Vec::new()
            }
            Err(error) => vec![Arrival::Lost(format!("its standard output cannot be read: {error}"))],
        };
        stream::iter(arrivals)
    });
    let ended = async move { Arrival::Lost(ended(exit).await) };
    read.chain(ended.into_stream()).boxed()
}

/// Why a child's standard output ended.
async fn ended(mut exit: watch::Receiver<Option<String>>) -> String {
    let told = timeout(EXIT_WAIT, exit.wait_for(Option::is_some)).await;
    let status = told.ok().and_then(|status| status.ok().and_then(|status| status.clone()));
    status.unwrap_or_else(|| "the process closed its standard output".to_owned())
}

// === impl StdioTransport ===

impl Transport for StdioTransport {
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (queue, line) = (self.queue.clone(), line(&message.encode()));
        async move {
            let sent = queue.send(line).await;
            sent.map_err(|_| TransportError::Gone("the process does not read its standard input any more".to_owned()))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let mut exit = self.exit.clone();
        async move {
            let _ = exit.wait_for(Option::is_some).await;
        }
        .boxed()
    }

    fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }
}
