//! Who listens to what a backend says outside of any call. Knows nothing of sessions: a listen outlives them.

use std::{collections::HashMap, sync::Arc};

use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::connection_key::ConnectionKey;
use crate::{
    mcp::{Event, Method, Notification, Payload, Question, Revision},
    model::Requester,
};

/// How many events wait for a slow listener; what comes beyond is dropped and counted.
const QUEUE: usize = 256;

/// The listens at one backend, by whose sessions they hear, be these there or not.
#[derive(Debug, Default)]
pub(crate) struct Listens(Mutex<HashMap<ConnectionKey, Vec<ListenSender>>>);

/// Where the events of one listen go.
#[derive(Debug)]
struct ListenSender {
    holder: Requester,
    /// The methods that it alone hears; none: it hears everything, questions too.
    only: Vec<Method>,
    events: mpsc::Sender<Event>,
}

impl Listens {
    /// What is said to `holder` on the sessions of `key` from now on: notifications of the methods `only`, or everything if
    /// that is empty. It never ends by itself.
    pub(crate) fn listen(
        self: &Arc<Self>,
        key: &ConnectionKey,
        holder: Requester,
        only: Vec<Method>,
    ) -> impl Stream<Item = Event> + Send + use<> {
        let (events, receiver) = mpsc::channel(QUEUE);
        let key = key.sharer();
        self.0.lock().entry(key.clone()).or_default().push(ListenSender { holder, only, events });
        let ear = Ear { listens: Arc::clone(self), key, receiver };
        stream::unfold(ear, async |mut ear| ear.receiver.recv().await.map(|event| (event, ear))).fuse()
    }

    /// Tells those who listen at `key` and for whom it is; whether anybody does.
    pub(crate) fn tell(
        &self,
        key: &ConnectionKey,
        notification: &Notification,
        is_for: impl Fn(&Requester) -> bool,
    ) -> bool {
        let listens = self.0.lock();
        let listeners = listens.get(&key.sharer()).into_iter().flatten();
        let is_of_it =
            |listener: &&ListenSender| listener.only.is_empty() || listener.only.contains(&notification.method);
        let mut heard = false;
        for listener in listeners.filter(is_of_it).filter(|listener| is_for(&listener.holder)) {
            heard = true;
            if listener.events.try_send(Event::Notified(notification.clone())).is_err() {
                metrics::counter!("lockkeeper_backend_notifications_dropped_total").increment(1);
            }
        }
        heard
    }

    /// Tells all who listen at `key` that every list may have changed: the server behind it is another one now.
    pub(crate) fn tell_all_changed(&self, key: &ConnectionKey) {
        for method in [Method::ToolsListChanged, Method::PromptsListChanged, Method::ResourcesListChanged] {
            self.tell(key, &Notification { method, params: Payload::absent(Revision::NEWEST_LEGACY) }, |_| true);
        }
    }

    /// Gives the question to the one who listens at `key`; where more than one does, it is dropped, never
    /// given to a guess (design rule 4), and the server is told that nobody answers.
    ///
    /// # Errors
    ///
    /// The question itself, where nobody listens.
    pub(crate) fn ask(&self, key: &ConnectionKey, question: Question) -> Result<(), Question> {
        let listens = self.0.lock();
        let mut able = listens.get(&key.sharer()).into_iter().flatten().filter(|listener| listener.only.is_empty());
        match (able.next(), able.next()) {
            (Some(listener), None) => {
                // a full queue drops the question, which refuses it
                let _ = listener.events.try_send(Event::Asked(question));
                Ok(())
            }
            (None, _) => Err(question),
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

/// One listen; when it is dropped, nobody is told any more.
struct Ear {
    listens: Arc<Listens>,
    key: ConnectionKey,
    receiver: mpsc::Receiver<Event>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.receiver.close();
        let mut listens = self.listens.0.lock();
        if let Some(at_key) = listens.get_mut(&self.key) {
            at_key.retain(|listener| !listener.events.is_closed());
            if at_key.is_empty() {
                listens.remove(&self.key);
            }
        }
    }
}
