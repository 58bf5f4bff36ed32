//! Task modes of the tools of a server of 2025-11-25 (2025-11-25, tools, *Execution*), from its lists of tools.
//!
//! Lists are read as they pass. The gateway requests the server's list only if a call names a tool that no list has
//! named: for each user one list at a time, and none for [`READ_AGAIN`] after it, so that invented names cost only
//! their caller. The gateway does not rely on an error instead: servers reject a call without the required task in
//! several ways, and a call must not be repeated.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use crate::{
    mcp::{Call, CancelReason, Context, Method, Outcome, Payload, Revision, Server, json::Object, translate::Profile},
    model::UserId,
    support::Digest,
};

/// Maximum number of tools that lists have named; beyond it all are removed.
const MAX_TOOLS: usize = 10_000;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// Maximum number of known unlisted names in one user's calls; beyond it the oldest is forgotten.
const MAX_UNLISTED: usize = 64;
/// Maximum number of users with known unlisted names; beyond it, the user whose list was read first is forgotten.
const MAX_USERS: usize = 1_000;
/// A user's list is not read again for this long.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Task modes of one server's tools.
#[derive(Debug, Default)]
pub(super) struct ToolModes {
    listed: RwLock<HashMap<String, ToolMode>>,
    /// The lists read for calls of unlisted tools.
    readings: Mutex<HashMap<UserId, Arc<AsyncMutex<UserReading>>>>,
}

/// The last list read for a user.
#[derive(Debug, Default)]
struct UserReading {
    /// Time when it was read, or reading it failed.
    ended: Option<Instant>,
    /// Names missing from it, oldest first.
    unlisted: VecDeque<Digest>,
}

/// Task mode of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolMode {
    /// It must not be called as a task.
    Forbidden,
    Optional,
    Required,
}

// === impl ToolModes ===

impl ToolModes {
    /// The mode of the tool `name` at `server`. An unlisted tool cannot run as a task.
    pub(super) async fn mode(&self, name: &str, server: &dyn Server, context: &Context) -> ToolMode {
        if let Some(mode) = self.known(name) {
            return mode;
        }
        let reading = self.reading(&context.caller.user);
        let mut reading = reading.lock().await;
        // another call may have read it by now
        if let Some(mode) = self.known(name) {
            return mode;
        }
        let digest = Digest::sha256(name);
        if reading.is_recent() || reading.unlisted.contains(&digest) {
            return ToolMode::Forbidden;
        }
        let is_complete = self.read(server, context).await;
        reading.ended = Some(Instant::now());
        let mode = self.known(name);
        if mode.is_none() && is_complete {
            reading.note_unlisted(digest);
        }
        mode.unwrap_or(ToolMode::Forbidden)
    }

    /// Stores the modes from a page of the list of tools.
    pub(super) fn note(&self, page: &Payload) {
        let Some(tools) = page.member("tools").map(str::to_owned) else { return };
        let tools: Vec<&serde_json::value::RawValue> = serde_json::from_str(&tools).unwrap_or_default();
        let modes = tools.iter().filter_map(|tool| {
            let tool = Object::parse(tool.get().as_bytes())?;
            Some((tool.string("name")?, ToolMode::of(&tool)))
        });
        let mut listed = self.listed.write();
        if listed.len() > MAX_TOOLS {
            listed.clear();
        }
        listed.extend(modes);
    }

    /// The mode of the tool `name`, if a list has named it.
    pub(super) fn known(&self, name: &str) -> Option<ToolMode> {
        self.listed.read().get(name).copied()
    }

    /// The list being read for this user, or the last one.
    fn reading(&self, user: &UserId) -> Arc<AsyncMutex<UserReading>> {
        let mut readings = self.readings.lock();
        if let Some(reading) = readings.get(user) {
            return Arc::clone(reading);
        }
        if readings.len() >= MAX_USERS {
            // a locked list is being read
            let first = readings.iter().filter_map(|(user, reading)| Some((reading.try_lock().ok()?.ended, user)));
            if let Some(first) = first.min().map(|(_, user)| user.clone()) {
                readings.remove(&first);
            }
        }
        Arc::clone(readings.entry(user.clone()).or_default())
    }

    /// Reads the whole list; `false` if it could not be read.
    async fn read(&self, server: &dyn Server, context: &Context) -> bool {
        let (profile, cancel_reason) = (Profile::default(), CancelReason::default());
        let context = Context { mirror: None, profile, cancel_reason, ..context.clone() };
        let mut params = Payload::absent(Revision::NEWEST_LEGACY);
        for _ in 0..MAX_PAGES {
            let call = Call { method: Method::ToolsList, params, context: context.clone() };
            let Outcome::Complete(page) = server.call(call).outcome().await else { return false };
            self.note(&page);
            let Some(cursor) = page.string("nextCursor") else { return true };
            params = Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "cursor": cursor }));
        }
        true
    }
}

// === impl UserReading ===

impl UserReading {
    fn is_recent(&self) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() < READ_AGAIN)
    }

    fn note_unlisted(&mut self, name: Digest) {
        if self.unlisted.len() >= MAX_UNLISTED {
            self.unlisted.pop_front();
        }
        self.unlisted.push_back(name);
    }
}

impl ToolMode {
    fn of(tool: &Object<'_>) -> Self {
        let execution = tool.get("execution").and_then(|text| Object::parse(text.as_bytes()));
        match execution.and_then(|execution| execution.string("taskSupport")).as_deref() {
            Some("required") => Self::Required,
            Some("optional") => Self::Optional,
            _ => Self::Forbidden,
        }
    }
}
