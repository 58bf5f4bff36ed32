//! Filter of `subscriptions/listen` and of its acknowledgement (2026-07-28, subscriptions; tasks extension, *Task
//! Status Notifications*). Only data.
//!
//! A listen without parameters gets all notifications and no acknowledgement, like the stream of a session. A listen
//! with a filter begins with its acknowledgement.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value, json};

use super::{
    ClientInfo, ErrorObject, Event, ListKind, Method, Notification, Payload, Reply, Revision,
    methods::{RESOURCE_SUBSCRIPTIONS, TASK_IDS},
    uri::covers,
};

/// Member of the filter with methods, used only inside the gateway.
const METHODS: &str = "methods";

/// Member of the filter that contains members unknown to MCP, used only inside the gateway.
const OTHERS: &str = "others";

/// Maximum number of members of a client's filter that MCP does not define, and of their bytes in total.
const MAX_OTHERS: (usize, usize) = (16, 8 * 1024);
/// Maximum number of resources in a client's filter, and of bytes in each URI.
const MAX_RESOURCES: (usize, usize) = (1_000, 8 * 1024);
/// Maximum number of tasks in a client's filter, and of bytes in each id.
const MAX_TASKS: (usize, usize) = (1_000, 1024);

/// A filter as chosen by a client, or as acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Lists, by their members of the filter.
    pub lists: BTreeSet<&'static str>,
    /// URIs of resources.
    pub resources: BTreeSet<String>,
    /// Ids of tasks.
    pub tasks: BTreeSet<String>,
    /// Members that MCP does not define, such as members of extensions.
    pub others: BTreeMap<String, Value>,
}

// === impl Filter ===

impl Filter {
    /// Reads the filter that `client` chose.
    ///
    /// # Errors
    ///
    /// `-32602` if `notifications` is not a filter, or names too much; `-32021` if it names tasks, and the client did
    /// not declare the extension (tasks extension, *Task Status Notifications*).
    pub(crate) fn read(params: &Payload, client: &ClientInfo) -> Result<Self, ErrorObject> {
        let malformed = || ErrorObject::invalid_params("Invalid params: `notifications` must be a filter");
        let all: Value = params.view().ok_or_else(malformed)?;
        let filter = all["notifications"].as_object().ok_or_else(malformed)?;
        let mut lists = BTreeSet::new();
        for member in ListKind::CHANGING.map(ListKind::filter_member) {
            match filter.get(member) {
                None | Some(Value::Bool(false)) => {}
                Some(Value::Bool(true)) => drop(lists.insert(member)),
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
        let resources = named(RESOURCE_SUBSCRIPTIONS, "resources", MAX_RESOURCES)?;
        let tasks = named(TASK_IDS, "ids of tasks", MAX_TASKS)?;
        if !tasks.is_empty() && !client.takes_tasks() {
            return Err(ErrorObject::undeclared_tasks());
        }
        let others: BTreeMap<String, Value> = filter
            .iter()
            .filter(|(member, _)| !is_defined(member))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if others.len() > MAX_OTHERS.0 || json!(others).to_string().len() > MAX_OTHERS.1 {
            let (count, length) = MAX_OTHERS;
            let message = format!(
                "Invalid params: `notifications` may have at most {count} members that MCP does not define, of {length} bytes in all"
            );
            return Err(ErrorObject::invalid_params(&message));
        }
        Ok(Self { lists, resources, tasks, others })
    }

    /// Reads the filter in these parameters; malformed parts are left out.
    pub fn of(params: &Payload) -> Self {
        let params: Value = params.view().unwrap_or_default();
        let filter = &params["notifications"];
        let members = ListKind::CHANGING.map(ListKind::filter_member).into_iter();
        let lists = members.filter(|member| filter[*member] == true).collect();
        let names = |member: &str| strings(&filter[member]).into_iter().collect();
        let others = filter[OTHERS].as_object().cloned().unwrap_or_default();
        Self {
            lists,
            resources: names(RESOURCE_SUBSCRIPTIONS),
            tasks: names(TASK_IDS),
            others: others.into_iter().collect(),
        }
    }

    /// The part of this filter that is also in `chosen`.
    #[must_use]
    pub fn within(&self, chosen: &Self) -> Self {
        Self {
            lists: &self.lists & &chosen.lists,
            resources: &self.resources & &chosen.resources,
            tasks: &self.tasks & &chosen.tasks,
            others: { self.others.iter() }
                .filter(|(name, _)| chosen.others.contains_key(*name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// Adds everything in another filter.
    pub fn add(&mut self, other: Self) {
        self.lists.extend(other.lists);
        self.resources.extend(other.resources);
        self.tasks.extend(other.tasks);
        self.others.extend(other.others);
    }

    /// Parameters with this filter, without empty members.
    pub fn params(&self) -> Payload {
        let mut filter = self.defined();
        if !self.others.is_empty() {
            filter.insert(OTHERS.to_owned(), json!(self.others));
        }
        Payload::of(Revision::V2026_07_28, &json!({ "notifications": filter }))
    }

    /// The same in the form for clients.
    pub fn params_for_client(&self) -> Payload {
        let mut filter = self.defined();
        filter.extend(self.others.clone());
        Payload::of(Revision::V2026_07_28, &json!({ "notifications": filter }))
    }

    fn defined(&self) -> Map<String, Value> {
        let mut filter: Map<String, Value> =
            self.lists.iter().map(|member| ((*member).to_owned(), Value::Bool(true))).collect();
        for (member, names) in [(RESOURCE_SUBSCRIPTIONS, &self.resources), (TASK_IDS, &self.tasks)] {
            if !names.is_empty() {
                filter.insert(member.to_owned(), json!(names));
            }
        }
        filter
    }

    /// The acknowledgement of this filter.
    pub fn acknowledged(&self) -> Event {
        Event::Notified(Notification { method: Method::SubscriptionsAcknowledged, params: self.params() })
    }

    /// True if the filter includes a notification. An update may be about a sub-resource.
    pub fn tells(&self, method: &Method, params: &Payload) -> bool {
        match method {
            Method::ResourceUpdated => {
                let uri = params.string("uri").unwrap_or_default();
                self.resources.iter().any(|chosen| covers(chosen, &uri))
            }
            Method::Tasks => params.string("taskId").is_some_and(|id| self.tasks.contains(&id)),
            method if method.is_of_extension() => !self.others.is_empty(),
            _ => ListKind::changed_by(method).iter().any(|kind| self.lists.contains(kind.filter_member())),
        }
    }
}

/// True for a member of the filter that MCP defines.
fn is_defined(member: &str) -> bool {
    ListKind::CHANGING.into_iter().any(|kind| kind.filter_member() == member)
        || [RESOURCE_SUBSCRIPTIONS, TASK_IDS].contains(&member)
}

/// Request for a listen of one client, for members of the filter that MCP does not define. It is never shared, because
/// the gateway cannot know which client its notifications concern.
pub fn for_others(others: &BTreeMap<String, Value>) -> (Method, Payload) {
    let params = Payload::of(Revision::V2026_07_28, &json!({ "notifications": others }));
    (Method::Other(Method::Listen.as_str().into()), params)
}

/// The members unknown to MCP in a server's acknowledgement of such a listen.
pub fn others_in(params: &Payload) -> Filter {
    let params: Value = params.view().unwrap_or_default();
    let all = params["notifications"].as_object().cloned().unwrap_or_default();
    Filter { others: all.into_iter().filter(|(member, _)| !is_defined(member)).collect(), ..Filter::default() }
}

/// Ids of tasks in the filter of a listen or of its acknowledgement; none if it is malformed.
pub fn task_ids(params: &Payload) -> Vec<String> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][TASK_IDS])
}

/// URIs of resources in the filter of a listen or of its acknowledgement; none if it is malformed.
pub fn resources(params: &Payload) -> Vec<String> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][RESOURCE_SUBSCRIPTIONS])
}

/// Parameters of a listen inside the gateway that keeps subscriptions open. It only yields the acknowledgement, and
/// ends with an error if the server rejects `subscriptions/listen`. Updates arrive on the same client's listen for all
/// notifications.
pub fn for_resources(uris: &[&str]) -> Payload {
    let methods = [Method::SubscriptionsAcknowledged.as_str()];
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { RESOURCE_SUBSCRIPTIONS: uris, METHODS: methods } }))
}

/// Parameters of a listen inside the gateway for these methods, without server requests. It begins with an
/// acknowledgement.
pub fn for_methods(methods: &[Method]) -> Payload {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { METHODS: names } }))
}

/// The methods of a listen; none if it gets all notifications.
pub fn methods(params: &Payload) -> Vec<Method> {
    let params: Value = params.view().unwrap_or_default();
    strings(&params["notifications"][METHODS]).iter().map(|name| Method::parse(name)).collect()
}

/// The strings among the elements of an array; none if it is not an array.
pub fn strings(array: &Value) -> Vec<String> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Parameters of a listen for these tasks, and for everything that needs no filter; no parameters without tasks. A
/// server with tasks begins its reply with the acknowledgement of [`honouring`].
pub fn for_tasks<'a>(ids: impl IntoIterator<Item = &'a String>) -> Payload {
    let ids: Vec<&String> = ids.into_iter().collect();
    if ids.is_empty() {
        return Payload::absent(Revision::V2026_07_28);
    }
    Payload::of(Revision::V2026_07_28, &json!({ "notifications": { TASK_IDS: ids } }))
}

/// An acknowledgement for these tasks.
pub fn honouring<'a>(ids: impl IntoIterator<Item = &'a str>) -> Event {
    let ids: Vec<&str> = ids.into_iter().collect();
    let params = Payload::of(Revision::V2026_07_28, &json!({ "notifications": { TASK_IDS: ids } }));
    Event::Notified(Notification { method: Method::SubscriptionsAcknowledged, params })
}

/// An acknowledgement for these resources and tasks, in this order.
pub fn acknowledging<'a>(resources: impl Iterator<Item = &'a str>, tasks: impl Iterator<Item = &'a str>) -> Event {
    let (resources, tasks): (Vec<&str>, Vec<&str>) = (resources.collect(), tasks.collect());
    let filter = json!({ "notifications": { RESOURCE_SUBSCRIPTIONS: resources, TASK_IDS: tasks } });
    let params = Payload::of(Revision::V2026_07_28, &filter);
    Event::Notified(Notification { method: Method::SubscriptionsAcknowledged, params })
}

/// The reply to a listen with these parameters, from a server without tasks.
#[must_use]
pub fn without_tasks(params: &Payload, reply: Reply) -> Reply {
    if task_ids(params).is_empty() {
        return reply;
    }
    Reply::new(stream::iter([honouring([])]).chain(reply))
}
