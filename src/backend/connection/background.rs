//! Messages that are sent behind a caller's back: answers, cancellations. Knows nothing of what they say.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{task_group::TaskGroup, transport::Transport},
    mcp::Message,
    model::BackendId,
};

/// How many are on their way to the server at once; what comes beyond is dropped.
const MOST: usize = 64;
/// How long one may take to be sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends messages beside the calls of one connection, until its `end`. All clones are one.
#[derive(Clone)]
pub(crate) struct BackgroundSender {
    backend: BackendId,
    transport: Arc<dyn Transport>,
    tasks: TaskGroup,
    end: CancellationToken,
    room: Arc<Semaphore>,
}

impl BackgroundSender {
    /// None yet.
    pub(crate) fn new(
        backend: &BackendId,
        transport: &Arc<dyn Transport>,
        tasks: &TaskGroup,
        end: &CancellationToken,
    ) -> Self {
        let (backend, transport, tasks, end) = (backend.clone(), Arc::clone(transport), tasks.clone(), end.clone());
        Self { backend, transport, tasks, end, room: Arc::new(Semaphore::new(MOST)) }
    }

    /// Sends a message as well as it goes.
    pub(crate) fn tell(&self, message: Message) {
        self.tell_in_order(vec![message]);
    }

    /// Sends several messages, each when the one before is sent or was not taken in time.
    pub(crate) fn tell_in_order(&self, messages: Vec<Message>) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics::counter!("lockkeeper_backend_answers_dropped_total").increment(1);
            return;
        };
        let sending: Vec<_> = messages.into_iter().map(|message| self.transport.send(message)).collect();
        let (end, backend) = (self.end.clone(), self.backend.clone());
        self.tasks.spawn(async move {
            for sending in sending {
                let sent = tokio::select! {
                    sent = timeout(PATIENCE, sending) => sent,
                    () = end.cancelled() => return,
                };
                match sent {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%backend, %error, "a message was not delivered"),
                    Err(_) => tracing::debug!(%backend, "a message was not taken in time"),
                }
            }
            drop(permit);
        });
    }
}
