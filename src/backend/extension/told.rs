//! How tasks at a server of 2026-07-28 are told of without being asked for (tasks extension, *Task Status Notifications*):
//! to a client of the same version those that its listen names, to one with a session those that it made. Knows nothing of
//! how the server is listened to.

use std::{sync::Arc, time::Duration};

use futures_util::Stream;

use super::{KEPT, detail::Detail};
use crate::{
    backend::{key::Key, served::Backend, wants::Topic},
    mcp::{Context, Era, Event, Method, Reply, listen},
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
    pub(in crate::backend) fn hear_tasks(
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
                self.keep_told(&event, &context);
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
        let Ok((_lease, peer)) = self.peer(&key, context).await else { return interest };
        if peer.introduction().is_none_or(|introduction| !introduction.has_tasks()) {
            return interest;
        }
        for id in ids {
            if self.wants.has_room(&key) && !self.ledger.is_of_another(&id, &interest.holder) {
                let topic = Topic::Task(id);
                self.wants.subscribed(&key, interest.holder.clone(), topic.clone());
                interest.topics.push(topic);
            }
        }
        if !interest.topics.is_empty() {
            let honoured = peer.honoured(interest.topics.clone()).await.unwrap_or_default();
            interest.narrow(honoured);
        }
        interest
    }

    /// Lets a client with a session hear of the task that it made.
    pub(super) fn follow_task(&self, id: &str, context: &Context) {
        let key = Key::of_modern(&self.spec, context);
        if self.wants.has_room(&key) {
            self.wants.subscribed(&key, context.requester.clone(), Topic::Task(id.to_owned()));
            self.want_anew(&key);
        }
    }

    /// Ends that: the client knows what became of it.
    pub(super) fn leave_task(&self, id: &str, context: &Context) {
        let key = Key::of_modern(&self.spec, context);
        if self.wants.unsubscribed(&key, &context.requester, &Topic::Task(id.to_owned())) {
            self.want_anew(&key);
        }
    }

    /// Keeps what a task came to that a client with a session is told of: its version tells no more than that it ended.
    fn keep_told(&self, event: &Event, context: &Context) {
        let Event::Notified(told) = event else { return };
        if told.method != Method::Tasks || context.client.revision.era() != Era::Legacy {
            return;
        }
        let Some(detail) = Detail::read(&told.params).filter(|detail| detail.status.is_final()) else { return };
        let (now, holder) = (self.room.clock.now(), context.requester.clone());
        if !self.ledger.is_of_another(&detail.id, &holder) && self.ledger.kept(&detail.id, now).is_none() {
            let ttl = told.params.object().and_then(|task| task.get("ttlMs")?.parse().ok());
            let ttl = ttl.map_or(KEPT.2, Duration::from_millis).clamp(KEPT.0, KEPT.2);
            self.ledger.keep(&holder, detail, now + ttl);
        }
    }

    fn want_anew(&self, key: &Key) {
        if let Some(peer) = self.pool.peer(key) {
            peer.want_anew();
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
