//! Owners of what outlives its call on a shared connection: tasks, URL elicitations and late progress. Knows nothing of
//! notifications.

use bytes::Bytes;
use hashlink::LinkedHashMap;

use crate::{
    mcp::{Payload, json::Object},
    model::Requester,
};

/// Maximum number of entries; the oldest are removed.
const MAX_ENTRIES: usize = 4_096;

/// A thing with an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum OwnedId {
    /// A task (2025-11-25).
    Task(String),
    /// An elicitation by URL (2025-11-25).
    Elicitation(String),
    /// A progress token of the gateway whose call created a task (2025-11-25: it stays valid with the task).
    Token(u64),
}

/// Owners by thing, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Ownership(LinkedHashMap<OwnedId, CallOwner>);

/// A client session and its progress token.
#[derive(Debug, Clone)]
pub(super) struct CallOwner {
    /// The session.
    pub(super) holder: Requester,
    /// The client's own token, for [`OwnedId::Token`].
    pub(super) token: Option<Bytes>,
}

impl Ownership {
    /// Stores the owner of a thing.
    pub(super) fn note(&mut self, thing: OwnedId, owner: CallOwner) {
        self.0.replace(thing, owner);
        if self.0.len() > MAX_ENTRIES {
            self.0.pop_front();
        }
    }

    /// The owner of a thing; `None` if it is unknown.
    pub(super) fn owner(&self, thing: &OwnedId) -> Option<&CallOwner> {
        self.0.get(thing)
    }
}

/// The tasks of a list that `keep` selects; every other byte stays.
pub(super) fn own_tasks(result: &Payload, keep: impl Fn(&str) -> bool) -> Payload {
    let Some(tasks) = result.member("tasks").map(str::to_owned) else {
        return result.clone();
    };
    let Ok(tasks) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(&tasks) else { return result.clone() };
    let id = |task: &str| Object::parse(task.as_bytes()).and_then(|task| task.string("taskId"));
    let kept: Vec<&str> =
        tasks.iter().map(|task| task.get()).filter(|task| id(task).is_some_and(|id| keep(&id))).collect();
    result.with("tasks", &format!("[{}]", kept.join(",")))
}
