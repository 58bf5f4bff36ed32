//! Following a task of a client with a session at a server with the tasks extension: the server tells how it is only to
//! whom a listen names it. Knows nothing of what the client is told.

use std::time::Duration;

use tokio::time::sleep;

use super::extension_tasks::ExtensionTasks;
use crate::mcp::{Context, Event, Method, listen, task::DetailedTask};

/// The first and the longest wait before a server that does not tell of the task is asked again to do so.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));

/// Listens for the task until it is over, so that what the server tells of it comes on the client's own listen, and keeps
/// what it came to.
pub(super) async fn follow(tasks: ExtensionTasks, id: String, context: Context) {
    let mut pause = RETRY.0;
    loop {
        let mut listen = tasks.listen_for(&id, &context);
        while let Some(event) = listen.next_event().await {
            let Event::Notified(told) = event else { break };
            match told.method {
                // the server does not tell of it, or did not say so in time
                Method::SubscriptionsAcknowledged if !listen::task_ids(&told.params).contains(&id) => break,
                Method::SubscriptionsAcknowledged => pause = RETRY.0,
                Method::Tasks => {
                    if let Some(task) = DetailedTask::read(&told.params).filter(|task| task.id == id)
                        && tasks.shared.keep(task, &context.requester)
                    {
                        return;
                    }
                }
                _ => {}
            }
        }
        drop(listen);
        sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}
