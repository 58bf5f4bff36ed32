//! Messages sent in the background, best effort: answers, cancellations.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{task_group::TaskGroup, transport::Transport},
    mcp::Message,
    model::BackendId,
};

/// Maximum number of unsent messages; more are dropped.
const MAX_UNSENT: usize = 64;
/// Maximum time for sending one message, not counting the wait until this replica may send.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends messages in the background of one connection, until its `end`. Clones share the state.
#[derive(Clone)]
pub(crate) struct BackgroundSender {
    backend: BackendId,
    transport: Arc<dyn Transport>,
    tasks: TaskGroup,
    end: CancellationToken,
    room: Arc<Semaphore>,
}

impl BackgroundSender {
    pub(crate) fn new(
        backend: &BackendId,
        transport: &Arc<dyn Transport>,
        tasks: &TaskGroup,
        end: &CancellationToken,
    ) -> Self {
        let (backend, transport, tasks, end) = (backend.clone(), Arc::clone(transport), tasks.clone(), end.clone());
        Self { backend, transport, tasks, end, room: Arc::new(Semaphore::new(MAX_UNSENT)) }
    }

    /// Sends a message, best effort: it is dropped if [`MAX_UNSENT`] are waiting.
    pub(crate) fn send(&self, message: Message) {
        self.send_in_order(vec![message]);
    }

    /// Sends several messages in order; each waits until the one before is sent or timed out.
    pub(crate) fn send_in_order(&self, messages: Vec<Message>) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics::counter!("lockkeeper_server_answers_dropped_total").increment(1);
            return;
        };
        let sending: Vec<_> = messages.into_iter().map(|message| self.transport.send(message)).collect();
        let (end, backend, transport) = (self.end.clone(), self.backend.clone(), Arc::clone(&self.transport));
        self.tasks.spawn(async move {
            for sending in sending {
                let sent = async {
                    transport.may_send().await;
                    timeout(SEND_TIMEOUT, sending).await
                };
                let Some(sent) = end.run_until_cancelled(sent).await else { return };
                match sent {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(server = %backend, %error, "a message was not delivered"),
                    Err(_) => tracing::debug!(server = %backend, "a message was not accepted in time"),
                }
            }
            drop(permit);
        });
    }
}
