//! What belongs to one of the client sessions that share a session at a server, beyond the call that it came from:
//! tasks, URL elicitations, and progress that goes on after its call. Knows nothing of how it is told.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::{
    mcp::{Payload, json, json::Object},
    model::Requester,
};

/// How many things are remembered; beyond, the oldest are forgotten.
const MOST: usize = 4_096;

/// A name that a server gave something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Thing {
    /// A task (2025-11-25).
    Task(String),
    /// An elicitation by URL (2025-11-25).
    Elicitation(String),
    /// A progress token of the gateway's own, whose call made a task (2025-11-25: it stays valid with the task).
    Token(u64),
}

/// Who owns what.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    owners: HashMap<Thing, Owner>,
    order: VecDeque<Thing>,
}

/// A client session, and the token that it gave.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    /// Whose it is.
    pub(super) holder: Requester,
    /// The client's own token, of [`Thing::Token`].
    pub(super) token: Option<Bytes>,
}

impl Belongings {
    /// Notes whose a thing is.
    pub(super) fn note(&mut self, thing: Thing, owner: Owner) {
        if self.owners.insert(thing.clone(), owner).is_none() {
            self.order.push_back(thing);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    /// Whose a thing is; `None` where nobody knows.
    pub(super) fn owner(&self, thing: &Thing) -> Option<&Owner> {
        self.owners.get(thing)
    }
}

/// The tasks of a list that `keep` says, every other byte as it was.
pub(super) fn own_tasks(result: &Payload, keep: impl Fn(&str) -> bool) -> Payload {
    let Some(tasks) = result.object().and_then(|object| object.get("tasks").map(str::to_owned)) else {
        return result.clone();
    };
    let Ok(tasks) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(&tasks) else { return result.clone() };
    let id = |task: &str| Object::parse(task.as_bytes()).and_then(|task| task.string("taskId"));
    let kept: Vec<&str> =
        tasks.iter().map(|task| task.get()).filter(|task| id(task).is_some_and(|id| keep(&id))).collect();
    result.with("tasks", &format!("[{}]", kept.join(",")))
}

/// The text of the string at `key`.
pub(super) fn name(params: &Payload, key: &str) -> Option<String> {
    params.object()?.get(key).and_then(json::unquote)
}
