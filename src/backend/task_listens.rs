//! Tasks that a listen names at a server of 2026-07-28 (tasks extension, *Task Status Notifications*): who listens for
//! which, so that the one listen at the server names them all. Knows nothing of how the server is listened to.

use std::sync::Arc;

use futures_util::Stream;

use super::{key::Key, remote::Backend, wants::Topic};
use crate::{
    mcp::{Context, Era, Event, Reply, listen},
    model::Requester,
};

/// What a listen wants to hear of tasks. Dropping it ends that.
struct Interest {
    backend: Arc<Backend>,
    key: Key,
    holder: Requester,
    topics: Vec<Topic>,
}

impl Backend {
    /// What is `heard` by a listen that names these tasks: first which of them the server tells of.
    pub(super) fn hear_tasks(
        self: Arc<Self>,
        ids: Vec<String>,
        context: Context,
        heard: impl Stream<Item = Event> + Send + 'static,
    ) -> Reply {
        Reply::new(async_stream::stream! {
            let interest = if ids.is_empty() { None } else { Some(Box::pin(self.interest(ids, &context)).await) };
            if let Some(interest) = &interest {
                yield listen::honouring(interest.topics.iter().filter_map(Topic::task));
            }
            for await event in heard {
                yield event;
            }
            drop(interest);
        })
    }

    /// The tasks among `ids` that the server tells of. Of one that is known to be another's nothing is told (extension,
    /// *Security Considerations*).
    async fn interest(self: &Arc<Self>, ids: Vec<String>, context: &Context) -> Interest {
        let (key, holder) = (Key::of_modern(&self.spec, context), context.requester.clone());
        let mut interest = Interest { backend: Arc::clone(self), key: key.clone(), holder, topics: Vec::new() };
        let Ok((_lease, connection)) = self.connection(Era::Modern, &key, context).await else { return interest };
        if !connection.tasks().has_tasks() {
            return interest;
        }
        for id in ids {
            if self.wants.has_room(&key) && !self.tasks.is_of_another(&id, &interest.holder) {
                let topic = Topic::Task(id);
                self.wants.subscribed(&key, interest.holder.clone(), topic.clone());
                interest.topics.push(topic);
            }
        }
        if !interest.topics.is_empty() {
            let honoured = connection.listening().honoured(interest.topics.clone()).await.unwrap_or_default();
            interest.narrow(honoured);
        }
        interest
    }

    fn want_anew(&self, key: &Key) {
        if let Some(connection) = self.pool.present(key) {
            connection.listening().want_anew();
        }
    }
}

// === impl Interest ===

impl Interest {
    /// Leaves all but these.
    fn narrow(&mut self, kept: Vec<Topic>) {
        let left = std::mem::replace(&mut self.topics, kept);
        self.leave(left.into_iter().filter(|topic| !self.topics.contains(topic)));
    }

    fn leave(&self, topics: impl Iterator<Item = Topic>) {
        let free = topics.filter(|topic| self.backend.wants.unsubscribed(&self.key, &self.holder, topic)).count();
        if free > 0 {
            self.backend.want_anew(&self.key);
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let topics = std::mem::take(&mut self.topics);
        self.leave(topics.into_iter());
    }
}
