//! Follows a task of a client with a session at a server with the tasks extension, which sends the status only to
//! listens that name the task.

use std::time::Duration;

use tokio::time::sleep;

use super::extension_tasks::ExtensionTasks;
use crate::mcp::{Context, Event, Method, listen, task::DetailedTask};

/// Minimum and maximum delay before retrying a server that did not acknowledge the task.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));

/// Listens for the task until it ends: the notifications reach the client by its own listen, and the result is stored.
pub(super) async fn follow(tasks: ExtensionTasks, id: String, context: Context) {
    let mut pause = RETRY.0;
    loop {
        let mut listen = tasks.listen_for(&id, &context);
        while let Some(event) = listen.next_event().await {
            let Event::Notified(told) = event else { break };
            match told.method {
                // the server did not acknowledge it, or not in time
                Method::SubscriptionsAcknowledged if !listen::task_ids(&told.params).contains(&id) => break,
                Method::SubscriptionsAcknowledged => pause = RETRY.0,
                Method::Tasks => {
                    if let Some(task) = DetailedTask::read(&told.params).filter(|task| task.id == id)
                        && tasks.shared.keep(task, &context)
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
