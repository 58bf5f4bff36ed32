//! `subscriptions/listen` (2026-07-28): what the client chose to hear, on one stream, acknowledged first and tagged. Knows
//! nothing of HTTP.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    load::Busy,
    strays::{Strays, Whose},
};
use crate::{
    mcp::{
        Call, ClientInfo, Context, ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        Revision, Server, json::draft::Draft, listen::LISTS, meta, uri::covers,
    },
    model::SessionId,
};

/// How many resources one listen can name, and how long each URI can be, in bytes.
const MOST: (usize, usize) = (1_000, 8 * 1024);
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
    /// To whom.
    pub(super) server: Arc<dyn Server>,
    /// Told when nobody listens any more, so that subscriptions end.
    pub(super) ended: Arc<dyn Fn(&SessionId) + Send + Sync>,
    /// Where questions wait for a call, by whom they can be taken, and who owns their waits.
    pub(super) strays: (Arc<Strays>, Whose, TaskTracker),
}

/// What the client chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    lists: BTreeSet<&'static str>,
    uris: BTreeSet<String>,
}

/// Ends the subscriptions of a listen however it ends.
struct Hold(Arc<dyn Fn(&SessionId) + Send + Sync>, Option<SessionId>);

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(name) = &self.1 {
            (self.0)(name);
        }
    }
}

// === impl Listen ===

impl Listen {
    /// The messages: the acknowledgement, what was chosen, and the result when the gateway ends it.
    pub(super) fn messages(
        self,
        params: &Payload,
        drained: CancellationToken,
        busy: Busy,
    ) -> impl Stream<Item = Message> + Send + 'static {
        let chosen = Filter::read(params);
        async_stream::stream! {
            let _busy = busy;
            let chosen = match chosen {
                Ok(chosen) => chosen,
                Err(error) => {
                    yield Message::error(self.id, error);
                    return;
                }
            };
            let hold = Hold(Arc::clone(&self.ended), self.context.holder());
            let call = Call { method: Method::Listen, params: Payload::absent(Revision::V2026_07_28), context: self.context.clone() };
            // from here on nothing is missed; it is told after the acknowledgement
            let mut told = self.server.call(call);
            let honoured = self.honoured(chosen).await;
            yield self.tagged(Method::SubscriptionsAcknowledged, &Payload::of(Revision::V2026_07_28, &honoured.acknowledged()));
            loop {
                tokio::select! {
                    biased;
                    () = drained.cancelled() => break,
                    event = told.next_event() => match event {
                        Some(Event::Notified(Notification { method, params })) => {
                            if honoured.wants(&method, &params) {
                                yield self.tagged(method, &params);
                            }
                        }
                        // a listen cannot be asked
                        Some(Event::Asked(question)) => {
                            let (strays, whose, tracker) = &self.strays;
                            strays.hold(whose.clone(), question, tracker);
                        }
                        Some(Event::Done(_)) | None => break,
                    },
                }
            }
            drop(hold);
            let result = self.ended();
            yield Message::result(self.id, result);
        }
    }

    /// The part of what the client chose that the server has.
    async fn honoured(&self, chosen: Filter) -> Filter {
        let capabilities = self.capabilities().await;
        let has = |name: &str, part: &str| capabilities[name][part] == true;
        let lists = LISTS
            .iter()
            .filter(|(member, capability, _)| chosen.lists.contains(member) && has(capability, "listChanged"));
        let lists = lists.map(|(member, ..)| *member).collect();
        let uris = if has("resources", "subscribe") { self.subscribe(chosen.uris).await } else { BTreeSet::new() };
        Filter { lists, uris }
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
    /// What the parameters choose.
    ///
    /// # Errors
    ///
    /// `-32602` where `notifications` is no filter, or names too much.
    fn read(params: &Payload) -> Result<Self, ErrorObject> {
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
        let uris = match filter.get("resourceSubscriptions") {
            None => BTreeSet::new(),
            Some(uris) => serde_json::from_value::<BTreeSet<String>>(uris.clone()).map_err(|_| malformed())?,
        };
        if uris.len() > MOST.0 || uris.iter().any(|uri| uri.len() > MOST.1) {
            let message = format!("Invalid params: at most {} resources, each of at most {} bytes", MOST.0, MOST.1);
            return Err(ErrorObject::invalid_params(&message));
        }
        Ok(Self { lists, uris })
    }

    /// Whether this was chosen. An update may be of something beneath a resource that was.
    fn wants(&self, method: &Method, params: &Payload) -> bool {
        if *method == Method::ResourceUpdated {
            let uri = params.string("uri").unwrap_or_default();
            return self.uris.iter().any(|chosen| covers(chosen, &uri));
        }
        LISTS.iter().any(|(member, _, told)| told == method && self.lists.contains(member))
    }

    fn acknowledged(&self) -> Value {
        let mut filter: serde_json::Map<String, Value> =
            self.lists.iter().map(|member| ((*member).to_owned(), Value::Bool(true))).collect();
        if !self.uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        json!({ "notifications": filter })
    }
}
