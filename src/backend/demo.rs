//! The built-in demonstration backend, which a gateway without configuration serves. It runs in the gateway's process.

mod complete;
mod content;
mod counter;
mod duplex;
mod results;

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use tokio::time::sleep;

use self::{
    counter::Counter,
    results::{LONGEST, complete, quoted_text, said, text_result},
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Revision, Server,
        json::Object,
        listen::{self, Filter},
        meta,
    },
    model::Requester,
    support::Clock,
};

pub struct Demo {
    clock: Arc<dyn Clock>,
    counter: Arc<Counter>,
}

impl Demo {
    pub const REVISION: Revision = results::REVISION;

    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, counter: Counter::new() }
    }

    /// Drops the subscriptions of a client that has left.
    pub(super) fn forget(&self, requester: &Requester) {
        self.counter.unsubscribe(requester);
    }

    fn tool(&self, params: &Payload, context: &Context) -> Reply {
        let call = params.view::<DemoToolCall<'_>>().unwrap_or_default();
        match &*call.name {
            "echo" => match call.quoted("message") {
                Some(message) => quoted_text(message),
                None => Reply::failed(ErrorObject::invalid_params("`message` is missing or no string")),
            },
            "add" => match (call.argument("a"), call.argument("b")) {
                (Some(a), Some(b)) => complete(&sum(a, b)),
                _ => Reply::failed(ErrorObject::invalid_params("`a` and `b` must be numbers")),
            },
            "time_now" => complete(&text_result(&self.clock.now().to_string())),
            "countdown" => match call.argument("from") {
                Some(from @ 1..=LONGEST) => countdown(from, params),
                _ => Reply::failed(ErrorObject::invalid_params("`from` must be a whole number from 1 to 60")),
            },
            "survey" => duplex::survey(&context.client),
            "haiku" => duplex::haiku(&context.client, call.argument("about")),
            "list_roots" => duplex::roots(&context.client),
            "log" => duplex::log(context.level.get()),
            "count_up" => complete(&text_result(&format!("The counter is at {}.", self.counter.advance()))),
            name => Reply::failed(ErrorObject::invalid_params(&format!("Unknown tool: {name}"))),
        }
    }
}

impl Demo {
    fn subscription(&self, call: &Call) -> Reply {
        let uri = call.params.string("uri").unwrap_or_default();
        if let Err(error) = content::read(&uri, 0) {
            return Reply::failed(error);
        }
        // the other resources never change
        match call.method {
            Method::ResourcesSubscribe if uri == counter::URI => self.counter.subscribe(call.context.requester.clone()),
            Method::ResourcesUnsubscribe if uri == counter::URI => self.counter.unsubscribe(&call.context.requester),
            _ => {}
        }
        complete(&json!({}))
    }
}

impl Demo {
    /// Notifications for a client with a session, or for the subscriptions in the filter.
    fn listen(&self, call: &Call) -> Reply {
        let (uris, requester) = (listen::resources(&call.params), call.context.requester.clone());
        if uris.is_empty() {
            return listen::without_tasks(&call.params, self.counter.listen(requester));
        }
        let subscribed = Subscribed { counter: Arc::clone(&self.counter), requester };
        let resources = uris.into_iter().filter(|uri| content::read(uri, 0).is_ok()).collect();
        let acknowledged = Filter { resources, ..Filter::default() };
        Reply::new(async_stream::stream! {
            // the other resources never change
            if acknowledged.resources.contains(counter::URI) {
                subscribed.counter.subscribe(subscribed.requester.clone());
            }
            yield acknowledged.acknowledged();
            std::future::pending::<()>().await;
            drop(subscribed);
        })
    }
}

/// A client's subscription to the counter. Dropping it unsubscribes.
struct Subscribed {
    counter: Arc<Counter>,
    requester: Requester,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.counter.unsubscribe(&self.requester);
    }
}

#[derive(Debug, Default, serde::Deserialize)]
struct DemoToolCall<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl DemoToolCall<'_> {
    /// One argument; `None` if it is missing or has another type. Other arguments are skipped without parsing: there
    /// may be hundreds of thousands, and this thread serves other requests too.
    fn argument<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let arguments = Object::parse(self.arguments?.get().as_bytes())?;
        serde_json::from_str(arguments.get(name)?).ok()
    }

    /// A string argument, still quoted, without a copy: it may have megabytes.
    fn quoted(&self, name: &str) -> Option<&str> {
        let text = Object::parse(self.arguments?.get().as_bytes())?.get(name)?;
        text.starts_with('"').then_some(text)
    }
}

impl Server for Demo {
    fn call(&self, call: Call) -> Reply {
        match call.method {
            Method::Discover => Reply::complete(Payload::of(Revision::NEWEST_MODERN, &content::discover())),
            Method::Listen => self.listen(&call),
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => self.subscription(&call),
            Method::Complete => answer(complete::proposals(&call.params)),
            Method::Ping => complete(&json!({})),
            Method::ToolsList => complete(&content::tools()),
            Method::ToolsCall => self.tool(&call.params, &call.context),
            Method::ResourcesList => complete(&content::resources()),
            Method::ResourceTemplatesList => complete(&content::resource_templates()),
            Method::ResourcesRead => {
                let uri = call.params.string("uri").unwrap_or_default();
                answer(content::read(&uri, self.counter.value()))
            }
            Method::PromptsList => complete(&content::prompts()),
            Method::PromptsGet => answer(content::prompt(&call.params)),
            method if method.is_notification() => Reply::complete(Payload::absent(Self::REVISION)),
            method => Reply::failed(ErrorObject::method_not_found(method.as_str())),
        }
    }
}

/// Counts down once a second, with progress if the client asked for it. Dropping the reply stops the countdown.
fn countdown(from: u64, params: &Payload) -> Reply {
    let token = meta::progress_token(params).and_then(|token| serde_json::from_slice::<Value>(&token).ok());
    Reply::new(async_stream::stream! {
        for done in 1..=from {
            sleep(Duration::from_secs(1)).await;
            if let Some(token) = &token {
                let left = from - done;
                let message = format!("{left} to go");
                let params = json!({ "progressToken": token, "progress": done, "total": from, "message": message });
                let params = Payload::of(Demo::REVISION, &params);
                yield Event::Notified(Notification { method: Method::Progress, params });
            }
        }
        yield Event::Done(Outcome::Complete(said(&text_result("Lift-off!"))));
    })
}

fn sum(a: f64, b: f64) -> Value {
    let sum = a + b;
    let mut result = text_result(&sum.to_string());
    result["structuredContent"] = json!({ "sum": sum });
    result
}

fn answer(answer: Result<Value, ErrorObject>) -> Reply {
    answer.map_or_else(Reply::failed, |result| complete(&result))
}
