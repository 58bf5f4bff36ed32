//! `subscriptions/listen` (2026-07-28): what the client chose to hear, on one stream, acknowledged first and tagged. Knows
//! nothing of HTTP.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    frontend::requests::RequestPermit,
    mcp::{
        Call, ClientInfo, Context, ErrorObject, Event, Message, Method, Notification, Payload, RequestId, Server,
        client_translator::ClientTranslator,
        json::draft::Draft,
        listen::{Filter, LISTS, RESOURCES, TASK_IDS},
        meta,
        observer::{LifecycleEvent, Observer},
    },
    model::Requester,
};

/// How many resources one listen can name, and how long each URI can be, in bytes.
const MAX_RESOURCES: (usize, usize) = (1_000, 8 * 1024);
/// How many tasks one listen can name, and how long each id can be, in bytes.
const MAX_TASKS: (usize, usize) = (1_000, 1024);
/// How long the gateway may take to acknowledge; it takes less itself.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_mins(1);

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
            let call = Call { method: Method::Listen, params: chosen.params(), context: self.context.clone() };
            let mut told = self.server.call(call);
            // the first that comes is the acknowledgement; a server that says nothing tells of nothing
            let first = tokio::select! {
                biased;
                () = drained.cancelled() => None,
                first = timeout(ACKNOWLEDGE_TIMEOUT, told.next_event()) => first.ok().flatten(),
            };
            let honoured = match &first {
                Some(Event::Notified(told)) if told.method == Method::SubscriptionsAcknowledged => {
                    Filter::of(&told.params).within(&chosen)
                }
                _ => Filter::default(),
            };
            yield self.tagged(Method::SubscriptionsAcknowledged, &honoured.params());
            loop {
                let event = tokio::select! {
                    biased;
                    () = drained.cancelled() => break,
                    event = told.next_event() => event,
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
        honoured.tells(&method, &params).then(|| self.tagged(method, &params))
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

/// Reads the filter in the parameters of `client`.
///
/// # Errors
///
/// `-32602` where `notifications` is no filter, or names too much; `-32021` where it names tasks, and the client did
/// not declare the extension (tasks extension, *Task Status Notifications*).
pub(super) fn filter(params: &Payload, client: &ClientInfo) -> Result<Filter, ErrorObject> {
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
    let resources = named(RESOURCES, "resources", MAX_RESOURCES)?;
    let tasks = named(TASK_IDS, "ids of tasks", MAX_TASKS)?;
    if !tasks.is_empty() && !client.takes_tasks() {
        return Err(ErrorObject::undeclared_tasks());
    }
    Ok(Filter { lists, resources, tasks })
}
