//! What `subscriptions/listen` can choose beside resources (2026-07-28, subscriptions; tasks extension, *Task Status
//! Notifications*), and the parameters and acknowledgements that name tasks. Data alone.

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{Event, Method, Notification, Payload, Reply, Revision};

/// The lists whose changes can be listened to: the member of the filter, the capability, the notification.
pub const LISTS: [(&str, &str, Method); 3] = [
    ("toolsListChanged", "tools", Method::ToolsListChanged),
    ("promptsListChanged", "prompts", Method::PromptsListChanged),
    ("resourcesListChanged", "resources", Method::ResourcesListChanged),
];
/// The member of the filter that names the tasks whose status is listened to.
pub const TASK_IDS: &str = "taskIds";

/// The member of the filter that names the resources whose updates are listened to.
pub const RESOURCES: &str = "resourceSubscriptions";

/// The member of the filter that names the methods, used inside the gateway alone.
const METHODS: &str = "methods";

/// The tasks that the filter of a listen names, or that of its acknowledgement; none where it is malformed.
pub fn task_ids(params: &Payload) -> Vec<String> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][TASK_IDS])
}

/// The resources that the filter of a listen names, or that of its acknowledgement; none where it is malformed.
pub fn resources(params: &Payload) -> Vec<String> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][RESOURCES])
}

/// The parameters of a listen inside the gateway that keeps up a subscription: it is told of nothing but its
/// acknowledgement, and ends with an error if the server cannot be listened to. Updates come on the listens of the same
/// client that are told of everything.
pub fn for_resource(uri: &str) -> Payload {
    let methods = [Method::SubscriptionsAcknowledged.as_str()];
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { RESOURCES: [uri], METHODS: methods } }))
}

/// The parameters of a listen inside the gateway that is told of these methods alone and asked nothing. It begins with an
/// acknowledgement.
pub fn for_methods(methods: &[Method]) -> Payload {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { METHODS: names } }))
}

/// The methods that a listen is told of alone; none if it is told of all.
pub fn methods(params: &Payload) -> Vec<Method> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][METHODS]).iter().map(|name| Method::parse(name)).collect()
}

/// The strings among the elements of an array; none where it is no array.
pub fn strings(array: &Value) -> Vec<String> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The parameters of a listen for these tasks, and for everything that needs not be asked for; absent where there are none.
/// Who is asked so begins the reply with the one acknowledgement of [`honouring`].
pub fn for_tasks<'a>(ids: impl IntoIterator<Item = &'a String>) -> Payload {
    let ids: Vec<&String> = ids.into_iter().collect();
    if ids.is_empty() {
        return Payload::absent(Revision::V2026_07_28);
    }
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { TASK_IDS: ids } }))
}

/// The acknowledgement that names the tasks whose status will be told.
pub fn honouring<'a>(ids: impl IntoIterator<Item = &'a str>) -> Event {
    let ids: Vec<&str> = ids.into_iter().collect();
    let params = Payload::of(Revision::V2026_07_28, &json!({ "notifications": { TASK_IDS: ids } }));
    Event::Notified(Notification { method: Method::SubscriptionsAcknowledged, params })
}

/// The acknowledgement that names the resources and the tasks that will be told of.
pub fn acknowledging<'a>(resources: impl Iterator<Item = &'a str>, tasks: impl Iterator<Item = &'a str>) -> Event {
    let (resources, tasks): (Vec<&str>, Vec<&str>) = (resources.collect(), tasks.collect());
    let filter = json!({ "notifications": { RESOURCES: resources, TASK_IDS: tasks } });
    let params = Payload::of(Revision::V2026_07_28, &filter);
    Event::Notified(Notification { method: Method::SubscriptionsAcknowledged, params })
}

/// The same reply to a listen of these parameters, by who tells of no task.
#[must_use]
pub fn without_tasks(params: &Payload, reply: Reply) -> Reply {
    if task_ids(params).is_empty() {
        return reply;
    }
    Reply::new(stream::iter([honouring([])]).chain(reply))
}
