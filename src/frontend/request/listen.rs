//! `subscriptions/listen` (2026-07-28): what the client chose to hear, on one stream, acknowledged first and tagged. Knows
//! nothing of HTTP.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::early::Early;
use crate::{
    frontend::requests::RequestPermit,
    mcp::{
        Call, ClientInfo, Context, ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        Revision, Server,
        client_translator::ClientTranslator,
        json::draft::Draft,
        listen::{self, LISTS, TASK_IDS},
        meta,
        observer::{LifecycleEvent, Observer},
        uri::covers,
    },
    model::Requester,
};

/// How many resources one listen can name, and how long each URI can be, in bytes.
const MOST: (usize, usize) = (1_000, 8 * 1024);
/// How many tasks one listen can name, and how long each id can be, in bytes.
const MOST_TASKS: (usize, usize) = (1_000, 1024);
/// How long a server may take to accept the subscriptions; what it has not accepted then is not acknowledged.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many subscriptions are asked for at once.
const AT_ONCE: usize = 16;

/// One listen.
pub(super) struct Listen {
    /// The id of the request, which tags what comes.
    pub(super) id: RequestId,
    /// Who listens.
    pub(super) context: Context,
    /// How the client is spoken to.
    pub(super) spoken: ClientTranslator,
    /// To whom.
    pub(super) server: Arc<dyn Server>,
    /// The observer of its end, so that subscriptions end.
    pub(super) observer: Observer,
}

/// What the client chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

/// Ends the subscriptions of a listen however it ends.
struct Hold(Observer, Requester);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.notify(LifecycleEvent::RequesterEnded(&self.1));
    }
}

// === impl Listen ===

impl Listen {
    /// The messages: the acknowledgement, what was chosen, and the result when the gateway ends it.
    pub(super) fn messages(
        self,
        chosen: Filter,
        drained: CancellationToken,
        permit: RequestPermit,
    ) -> impl Stream<Item = Message> + Send + 'static {
        async_stream::stream! {
            let _permit = permit;
            let hold = Hold(self.observer.clone(), self.context.requester.clone());
            let params = listen::for_tasks(&chosen.tasks);
            let call = Call { method: Method::Listen, params, context: self.context.clone() };
            let mut told = self.server.call(call);
            let (honoured, mut early) =
                Early::until(&mut told, &chosen.tasks, PATIENCE, self.honoured(&chosen)).await;
            let honoured = Filter { tasks: early.tasks.take().unwrap_or_default(), ..honoured };
            yield self.tagged(Method::SubscriptionsAcknowledged, &Payload::of(Revision::V2026_07_28, &honoured.acknowledged()));
            loop {
                let event = tokio::select! {
                    biased;
                    () = drained.cancelled() => break,
                    event = early.next(&mut told) => event,
                };
                match event {
                    Some(Event::Notified(told)) => {
                        if let Some(message) = self.shown(told, &honoured) {
                            yield message;
                        }
                    }
                    // nothing can be asked in a listen: being dropped refuses it
                    Some(Event::Asked(_)) => {}
                    Some(Event::Done(_)) | None => break,
                }
            }
            drop(hold);
            let result = self.ended();
            yield Message::result(self.id, result);
        }
    }

    /// What is told, where it was chosen, as the client's version writes it.
    fn shown(&self, told: Notification, honoured: &Filter) -> Option<Message> {
        let Notification { method, params } = self.spoken.notification(told)?;
        honoured.wants(&method, &params).then(|| self.tagged(method, &params))
    }

    /// The part of what the client chose that the server has, tasks left aside.
    async fn honoured(&self, chosen: &Filter) -> Filter {
        let capabilities = self.capabilities().await;
        let has = |name: &str, part: &str| capabilities[name][part] == true;
        let lists = LISTS
            .iter()
            .filter(|(member, capability, _)| chosen.lists.contains(member) && has(capability, "listChanged"));
        let lists = lists.map(|(member, ..)| *member).collect();
        let uris = chosen.uris.clone();
        let uris = if has("resources", "subscribe") { self.subscribe(uris).await } else { BTreeSet::new() };
        Filter { lists, uris, tasks: BTreeSet::new() }
    }

    async fn capabilities(&self) -> Value {
        let params = Payload::absent(Revision::V2026_07_28);
        let call = Call { method: Method::Discover, params, context: self.context.clone() };
        match self.server.call(call).outcome().await {
            Outcome::Complete(result) => {
                result.view::<Value>().map(|mut all| all["capabilities"].take()).unwrap_or_default()
            }
            _ => Value::Null,
        }
    }

    /// Subscribes to each; gives those that the server accepted in time.
    async fn subscribe(&self, uris: BTreeSet<String>) -> BTreeSet<String> {
        let asked = stream::iter(uris).map(|uri| async move {
            let params = Payload::of(Revision::NEWEST_LEGACY, &json!({ "uri": uri }));
            let call = Call { method: Method::ResourcesSubscribe, params, context: self.context.clone() };
            let outcome = timeout(PATIENCE, self.server.call(call).outcome()).await;
            matches!(outcome, Ok(Outcome::Complete(_))).then_some(uri)
        });
        asked.buffer_unordered(AT_ONCE).filter_map(async |accepted| accepted).collect().await
    }

    /// The result, which the gateway gives of its own accord.
    fn ended(&self) -> Bytes {
        let (id, gateway) = (String::from_utf8_lossy(self.id.json()), ClientInfo::gateway_implementation());
        let (subscription, server) = (meta::SUBSCRIPTION_ID, meta::SERVER_INFO);
        let gateway = String::from_utf8_lossy(&gateway);
        format!(r#"{{"resultType":"complete","_meta":{{"{subscription}":{id},"{server}":{gateway}}}}}"#).into()
    }

    /// A notification that tells which listen it belongs to.
    fn tagged(&self, method: Method, params: &Payload) -> Message {
        let text =
            if params.is_absent() { "{}".to_owned() } else { String::from_utf8_lossy(params.json()).into_owned() };
        let mut draft = Draft::of(&text);
        if draft.get(meta::META).is_none_or(|meta| !meta.is_object()) {
            draft.set(meta::META, "{}");
        }
        let id = String::from_utf8_lossy(self.id.json()).into_owned();
        draft.each(meta::META).for_each(|meta| meta.set(meta::SUBSCRIPTION_ID, id.clone()));
        Message::Notification { method, params: Bytes::from(draft.text()) }
    }
}

// === impl Filter ===

impl Filter {
    /// What the parameters of `client` choose.
    ///
    /// # Errors
    ///
    /// `-32602` where `notifications` is no filter, or names too much; `-32021` where it names tasks, and the client did
    /// not declare the extension (tasks extension, *Task Status Notifications*).
    pub(super) fn read(params: &Payload, client: &ClientInfo) -> Result<Self, ErrorObject> {
        let malformed = || ErrorObject::invalid_params("Invalid params: `notifications` must be a filter");
        let all: Value = params.view().ok_or_else(malformed)?;
        let filter = all["notifications"].as_object().ok_or_else(malformed)?;
        let mut lists = BTreeSet::new();
        for (member, ..) in &LISTS {
            match filter.get(*member) {
                None | Some(Value::Bool(false)) => {}
                Some(Value::Bool(true)) => drop(lists.insert(*member)),
                Some(_) => return Err(malformed()),
            }
        }
        let named = |member: &str, what: &str, (count, length): (usize, usize)| {
            let named = match filter.get(member) {
                None => BTreeSet::new(),
                Some(names) => serde_json::from_value::<BTreeSet<String>>(names.clone()).map_err(|_| malformed())?,
            };
            if named.len() > count || named.iter().any(|name| name.len() > length) {
                let message = format!("Invalid params: at most {count} {what}, each of at most {length} bytes");
                return Err(ErrorObject::invalid_params(&message));
            }
            Ok(named)
        };
        let uris = named("resourceSubscriptions", "resources", MOST)?;
        let tasks = named(TASK_IDS, "ids of tasks", MOST_TASKS)?;
        if !tasks.is_empty() && !client.takes_tasks() {
            return Err(ErrorObject::undeclared_tasks());
        }
        Ok(Self { lists, uris, tasks })
    }

    /// Whether this was chosen. An update may be of something beneath a resource that was.
    fn wants(&self, method: &Method, params: &Payload) -> bool {
        if *method == Method::ResourceUpdated {
            let uri = params.string("uri").unwrap_or_default();
            return self.uris.iter().any(|chosen| covers(chosen, &uri));
        }
        if *method == Method::Tasks {
            return params.string("taskId").is_some_and(|id| self.tasks.contains(&id));
        }
        LISTS.iter().any(|(member, _, told)| told == method && self.lists.contains(member))
    }

    fn acknowledged(&self) -> Value {
        let mut filter: serde_json::Map<String, Value> =
            self.lists.iter().map(|member| ((*member).to_owned(), Value::Bool(true))).collect();
        if !self.uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        if !self.tasks.is_empty() {
            filter.insert(TASK_IDS.to_owned(), json!(self.tasks));
        }
        json!({ "notifications": filter })
    }
}
