//! Requests about tasks to a server with the tasks extension, for a client with a session.

use std::sync::Arc;

use super::shared_tasks::SharedTasks;
use crate::mcp::{
    Call, Context, ErrorObject, Method, Outcome, Payload, Reply, Server, listen,
    task::{self, DetailedTask},
    translate::Profile,
};

/// Tasks at a server with the extension.
#[derive(Clone)]
pub(super) struct ExtensionTasks {
    pub(super) server: Arc<dyn Server>,
    pub(super) shared: Arc<SharedTasks>,
}

impl ExtensionTasks {
    /// `tasks/get`: the cached task, or the server's answer.
    pub(super) async fn get(&self, id: &str, context: &Context) -> Result<DetailedTask, ErrorObject> {
        let owner = context.caller.owner();
        if let Some(cached) = self.shared.of_sessions.cached(&owner, id, self.shared.clock.now()) {
            return Ok(cached);
        }
        match self.ask(Method::TasksGet, task::params(id), context).await {
            Outcome::Complete(told) => {
                let task = DetailedTask::read(&told)
                    .filter(|task| task.id == id)
                    .ok_or_else(|| self.fault("the server was asked how a task is, and told of something else"))?;
                self.shared.note(id, context);
                if task.status.is_final() {
                    self.shared.of_sessions.unfollow(&owner, id);
                }
                Ok(task)
            }
            Outcome::Failed(error) => Err(error),
            Outcome::InputRequired(_) => Err(self.fault("the server asks for input where it may not")),
        }
    }

    /// An error about the server.
    pub(super) fn fault(&self, message: &str) -> ErrorObject {
        ErrorObject::internal(message).about(self.shared.origin.backend())
    }

    /// A request about a task, for this client.
    pub(super) async fn ask(&self, method: Method, params: Payload, context: &Context) -> Outcome {
        self.server.call(Call { method, params, context: about(context) }).outcome().await
    }

    /// A listen for this task.
    pub(super) fn listen_for(&self, id: &str, context: &Context) -> Reply {
        let params = listen::for_tasks([&id.to_owned()]);
        self.server.call(Call { method: Method::Listen, params, context: about(context) })
    }
}

/// The same client, without what belongs to a single call.
fn about(context: &Context) -> Context {
    Context { mirror: None, profile: Profile::default(), ..context.clone() }
}
