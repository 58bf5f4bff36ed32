//! One session at one legacy server: its connection, its open calls, and its end.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Greeting,
    belongings::{Belongings, Thing, own_tasks},
    call::Running,
    question::Waiting,
};
use crate::{
    backend::{
        background::BackgroundSender,
        end::End,
        key::{Key, Scope},
        listens::Listens,
        pending::Pending,
        task_group::TaskGroup,
        transport::{Incoming, Transport, pump},
        wants::Wants,
    },
    crossing::tasks::ServerTasks,
    mcp::{
        Capabilities, Context, ErrorObject, Event, Feature, Level, Message, Method, Outcome, Payload, Question,
        RequestId, Revision, Untranslatable, translate::Cause,
    },
    model::{BackendId, Requester},
};

/// One session at one legacy server.
pub(crate) struct Session {
    /// Whose it is.
    pub(crate) about: About,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) greeting: OnceLock<Greeting>,
    pub(super) calls: Pending<Running>,
    pub(super) questions: Mutex<HashMap<RequestId, Waiting>>,
    /// Questions that wait for a call.
    pub(super) held: Mutex<Vec<(RequestId, Question)>>,
    /// What belongs to one client session of several, beyond a call.
    pub(super) belongings: Mutex<Belongings>,
    /// Calls that were given up and not answered, whose they are, and until when they count.
    pub(super) lingering: Mutex<HashMap<u64, (Requester, Instant)>>,
    level: Mutex<Option<Level>>,
    end: End,
    background: BackgroundSender,
}

/// Whose session it is, and what it belongs to.
pub(crate) struct About {
    /// The backend.
    pub(crate) backend: BackendId,
    /// Who shares it.
    pub(crate) key: Key,
    /// What its client can be asked.
    pub(crate) capabilities: Capabilities,
    /// Who is told what comes outside of calls.
    pub(crate) listens: Arc<Listens>,
    /// What the clients want.
    pub(crate) wants: Arc<Wants>,
    /// Where its tasks run.
    pub(crate) tasks: TaskGroup,
}

// === impl Session ===

impl Session {
    /// A session over a connection that has just been made. What comes on it is received from now on.
    pub(super) fn begin(about: About, transport: Arc<dyn Transport>, incoming: Incoming) -> Arc<Self> {
        let end = End::within(about.tasks.end());
        let background = BackgroundSender::new(&about.backend, &transport, &about.tasks, end.token());
        let session = Arc::new(Self {
            about,
            transport,
            greeting: OnceLock::new(),
            calls: Pending::default(),
            questions: Mutex::default(),
            held: Mutex::default(),
            belongings: Mutex::default(),
            lingering: Mutex::default(),
            level: Mutex::default(),
            end,
            background,
        });
        session.about.tasks.spawn(Arc::clone(&session).pump(incoming));
        session
    }

    /// What the server said of itself; `None` while the handshake is under way.
    pub(crate) fn greeting(&self) -> Option<&Greeting> {
        self.greeting.get()
    }

    /// How the server has tasks.
    pub(crate) fn tasks(&self) -> ServerTasks {
        self.greeting().map_or(ServerTasks::NONE, |greeting| greeting.tasks)
    }

    /// The negotiated version; the newest legacy one while there is none.
    pub(super) fn revision(&self) -> Revision {
        self.greeting.get().map_or(Revision::NEWEST_LEGACY, |greeting| greeting.revision)
    }

    /// Whose calls were given up of late: the server may still speak of them.
    pub(super) fn lingering(&self) -> Vec<Requester> {
        let (mut lingering, now) = (self.lingering.lock(), Instant::now());
        lingering.retain(|_, (_, until)| *until > now);
        lingering.values().map(|(holder, _)| holder.clone()).collect()
    }

    /// Whether the server writes logs to its client.
    pub(crate) fn can_log(&self) -> bool {
        self.greeting().is_some_and(|greeting| greeting.capabilities().get("logging").is_some())
    }

    /// The level that it was set to.
    pub(crate) fn level(&self) -> Option<Level> {
        *self.level.lock()
    }

    /// Notes the level that it was set to.
    pub(crate) fn set_level(&self, level: Level) {
        *self.level.lock() = Some(level);
    }

    /// Whether `method` is to be sent for this client. What the negotiated version has not is not sent
    /// (`translation` 6.5); a name that no version knows is the peers' own matter. A task of another client session is as if
    /// it did not exist (2025-11-25, tasks, *Security*).
    pub(crate) fn may_be_asked_for(
        &self,
        method: &Method,
        params: &Payload,
        context: &Context,
    ) -> Result<(), ErrorObject> {
        let has_tasks = || {
            let declared = self.greeting().is_some_and(|greeting| greeting.capabilities().get("tasks").is_some());
            declared && self.revision().has(Feature::CoreTasks)
        };
        if *method == Method::TasksUpdate || method.is_of_core_tasks() && !has_tasks() {
            let (feature, from, to) = (method.as_str().to_owned().into(), params.revision, self.revision());
            let denied = Untranslatable { feature, from, to, backend: None, cause: Cause::Request };
            let denied = denied.of(Some(&self.about.backend));
            if !to.has(Feature::CoreTasks) {
                denied.report();
            }
            return Err(denied.error());
        }
        let named = if method.is_of_core_tasks() { params.string("taskId") } else { None };
        match named {
            Some(id) if !self.owns_task(&context.requester, &id) && !self.may_own(context, &id) => {
                Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
            }
            _ => Ok(()),
        }
    }

    /// The part of an event that is for this client session: of a list of tasks, its own.
    pub(crate) fn own_part(&self, method: &Method, event: Event, holder: &Requester) -> Event {
        match event {
            Event::Done(Outcome::Complete(result)) if *method == Method::TasksList => {
                Event::Done(Outcome::Complete(own_tasks(&result, |id| self.owns_task(holder, id))))
            }
            event => event,
        }
    }

    /// Whether a task was made here. Where no one shares the server, it need not be known.
    pub(crate) fn made_task(&self, id: &str) -> bool {
        self.belongings.lock().owner(&Thing::Task(id.to_owned())).is_some()
    }

    /// Whether a task that nobody is known to own can be of a client without sessions: whatever is in the session of one
    /// user is that user's.
    fn may_own(&self, context: &Context, id: &str) -> bool {
        context.requester.session().is_none() && matches!(self.about.key.scope, Scope::User(_)) && !self.made_task(id)
    }

    /// Whether a task is this client session's; what nobody is known to own belongs to the only one behind this session.
    fn owns_task(&self, holder: &Requester, id: &str) -> bool {
        if self.about.key.is_of_one_client() {
            return true;
        }
        let belongings = self.belongings.lock();
        belongings.owner(&Thing::Task(id.to_owned())).is_some_and(|owner| owner.holder == *holder)
    }

    /// The last lines that the server wrote beside the protocol.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.transport.stderr_tail()
    }

    /// Enters a call that is about to be sent.
    ///
    /// # Errors
    ///
    /// Why none can be made any more.
    pub(super) fn enter(&self, running: Running) -> Result<(u64, mpsc::Receiver<Event>), String> {
        self.calls.open(running, &self.end)
    }

    /// Whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        self.end.has_come()
    }

    /// Waits for the end of the session and tells its reason.
    pub(crate) async fn over(&self) -> String {
        self.end.over().await
    }

    /// Why the session is over.
    pub(super) fn reason(&self) -> String {
        self.end.reason()
    }

    /// Ends the session. Calls that run fail, and may be tried again by the client (`translation` 4c).
    pub(crate) fn end(&self, reason: &str) {
        self.end.comes(reason);
        self.calls.fail_all(&self.lost_error());
        self.questions.lock().clear();
        self.held.lock().clear();
    }

    /// The error of a call that the end of this session left without an answer.
    pub(crate) fn lost_error(&self) -> ErrorObject {
        self.end.error(&self.about.backend)
    }

    /// Sends an answer or a cancellation behind the caller's back, as well as it goes.
    pub(super) fn tell(&self, message: Message) {
        self.background.tell(message);
    }

    /// Sends several such messages, each when the one before is sent.
    pub(super) fn tell_in_order(&self, messages: Vec<Message>) {
        self.background.tell_in_order(messages);
    }

    /// Whether this call has not ended.
    pub(super) fn runs(&self, call: u64) -> bool {
        self.calls.lock().get(call).is_some()
    }

    /// Receives what comes outside of exchanges until the session is over, then closes the connection.
    async fn pump(self: Arc<Self>, mut incoming: Incoming) {
        let take = |message| {
            if let Some((call, event)) = self.receive(message, None) {
                self.deliver(call, event);
            }
        };
        let reason = pump(&mut incoming, self.end.token(), take).await;
        self.end(reason.as_deref().unwrap_or("the gateway ended the session"));
        drop(incoming);
        self.transport.close().await;
    }
}
