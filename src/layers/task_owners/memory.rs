//! Owners of one server's tasks, in memory. Bounded for each owner.

use std::{collections::HashMap, time::Duration};

use hashlink::LinkedHashMap;

use crate::{
    model::Owner,
    support::{Digest, Timestamp},
};

/// Interval between searches for expired tasks.
const SWEEP: Duration = Duration::from_mins(10);

/// Owners of one server's tasks.
#[derive(Debug, Default)]
pub(super) struct KnownTasks {
    owners: HashMap<Owner, OwnerTaskTable>,
    /// The owners of each task: several only at a server that tells callers apart.
    holders: HashMap<Digest, Vec<Owner>>,
    swept: Option<Timestamp>,
}

/// The tasks of one owner, the oldest first.
type OwnerTaskTable = LinkedHashMap<Digest, KnownTask>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownTask {
    /// The time until which it is kept.
    pub(super) expires: Timestamp,
    /// True if it has ended.
    pub(super) has_ended: bool,
}

/// The owner has too many tasks, and none of them has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

// === impl KnownTasks ===

impl KnownTasks {
    /// The task of this owner, if it is known.
    pub(super) fn of(&self, owner: &Owner, task: &Digest, now: Timestamp) -> Option<KnownTask> {
        self.owners.get(owner)?.get(task).copied().filter(|known| known.expires > now)
    }

    /// True if the task has a known owner.
    pub(super) fn has(&self, task: &Digest) -> bool {
        self.holders.contains_key(task)
    }

    /// Adds a task. If the owner has too many, removes their oldest ended one and returns it. If the task `is_unique`,
    /// other owners lose it.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if `max` tasks of this owner are there, and none has ended.
    pub(super) fn add(
        &mut self,
        owner: &Owner,
        task: Digest,
        known: KnownTask,
        is_unique: bool,
        max: usize,
        now: Timestamp,
    ) -> Result<Option<Digest>, TooMany> {
        self.sweep(now);
        let left = self.make_room(owner, &task, max, now)?;
        if is_unique {
            let others: Vec<Owner> = self.holders.get(&task).into_iter().flatten().cloned().collect();
            for other in others.iter().filter(|other| *other != owner) {
                self.remove(other, &task);
            }
        }
        self.insert(owner, task, known);
        Ok(left)
    }

    /// Adds a task found in the store. The least recently added one leaves if there are more than `max`: the store
    /// still has it.
    pub(super) fn cache(&mut self, owner: &Owner, task: Digest, known: KnownTask, max: usize, now: Timestamp) {
        self.sweep(now);
        if self.make_room(owner, &task, max, now).is_err() {
            let oldest = self.owners.get(owner).and_then(|tasks| tasks.front()).map(|(task, _)| *task);
            if let Some(oldest) = oldest {
                self.remove(owner, &oldest);
            }
        }
        self.insert(owner, task, known);
    }

    /// Marks a task as ended. Returns true if it was not.
    pub(super) fn set_ended(&mut self, owner: &Owner, task: &Digest) -> bool {
        let known = self.owners.get_mut(owner).and_then(|tasks| tasks.get_mut(task));
        known.is_some_and(|known| !std::mem::replace(&mut known.has_ended, true))
    }

    /// Removes the oldest task of this owner that has ended, apart from `kept`.
    pub(super) fn take_ended(&mut self, owner: &Owner, kept: &Digest) -> Option<Digest> {
        let mut tasks = self.owners.get(owner)?.iter();
        let (ended, _) = tasks.find(|(task, known)| known.has_ended && *task != kept)?;
        let ended = *ended;
        self.remove(owner, &ended);
        Some(ended)
    }

    /// Removes a task of this owner.
    pub(super) fn remove(&mut self, owner: &Owner, task: &Digest) {
        if let Some(tasks) = self.owners.get_mut(owner) {
            tasks.remove(task);
            if tasks.is_empty() {
                self.owners.remove(owner);
            }
        }
        if let Some(holders) = self.holders.get_mut(task) {
            holders.retain(|holder| holder != owner);
            if holders.is_empty() {
                self.holders.remove(task);
            }
        }
    }

    fn insert(&mut self, owner: &Owner, task: Digest, known: KnownTask) {
        self.owners.entry(owner.clone()).or_default().replace(task, known);
        let holders = self.holders.entry(task).or_default();
        if !holders.contains(owner) {
            holders.push(owner.clone());
        }
    }

    fn make_room(
        &mut self,
        owner: &Owner,
        task: &Digest,
        max: usize,
        now: Timestamp,
    ) -> Result<Option<Digest>, TooMany> {
        let Some(tasks) = self.owners.get(owner) else { return Ok(None) };
        if tasks.len() < max || tasks.contains_key(task) {
            return Ok(None);
        }
        let may_leave = |known: &KnownTask| known.has_ended || known.expires <= now;
        let leaving = tasks.iter().find(|(_, known)| may_leave(known)).map(|(task, _)| *task);
        let leaving = leaving.ok_or(TooMany)?;
        self.remove(owner, &leaving);
        Ok(Some(leaving))
    }

    /// Removes expired tasks, so that tasks of owners who never come back do not stay.
    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|swept| now.since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        let expired = |(owner, tasks): (&Owner, &OwnerTaskTable)| {
            let gone = tasks.iter().filter(|(_, known)| known.expires <= now).map(|(task, _)| *task);
            gone.map(|task| (owner.clone(), task)).collect::<Vec<_>>()
        };
        let expired: Vec<(Owner, Digest)> = self.owners.iter().flat_map(expired).collect();
        for (owner, task) in expired {
            self.remove(&owner, &task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Caller, UserId};

    const MAX: usize = 3;
    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    fn owner(name: &str) -> Owner {
        Caller { user: UserId::new(name), ..Caller::gateway() }.owner()
    }

    fn task(id: u8) -> Digest {
        Digest::sha256([id])
    }

    fn working() -> KnownTask {
        KnownTask { expires: NOW + Duration::from_mins(1), has_ended: false }
    }

    fn add(known: &mut KnownTasks, of: &str, id: u8) -> Result<Option<Digest>, TooMany> {
        known.add(&owner(of), task(id), working(), true, MAX, NOW)
    }

    #[test]
    fn an_owner_with_too_many_tasks_loses_ended_ones_and_nobody_else_is_affected() {
        let mut known = KnownTasks::default();
        add(&mut known, "bob", 100).unwrap();
        for id in 0..3 {
            add(&mut known, "ann", id).unwrap();
        }
        assert_eq!(add(&mut known, "ann", 3), Err(TooMany));
        assert_eq!(add(&mut known, "ann", 1), Ok(None), "it is there already");
        add(&mut known, "bob", 101).unwrap();
        assert!(known.set_ended(&owner("ann"), &task(2)) && !known.set_ended(&owner("ann"), &task(2)));
        assert_eq!(add(&mut known, "ann", 3), Ok(Some(task(2))));
        let left: Vec<u8> = (0..4).filter(|id| known.of(&owner("ann"), &task(*id), NOW).is_some()).collect();
        assert_eq!(left, [0, 1, 3]);
        assert!([100, 101].iter().all(|id| known.of(&owner("bob"), &task(*id), NOW).is_some()));
    }

    #[test]
    fn a_task_is_its_owners_alone_until_it_expires() {
        let mut known = KnownTasks::default();
        add(&mut known, "ann", 1).unwrap();
        assert!(known.of(&owner("bob"), &task(1), NOW).is_none());
        assert!(known.of(&owner("ann"), &task(1), working().expires).is_none());
        let later = NOW + SWEEP;
        known.add(&owner("bob"), task(2), working(), true, MAX, later).unwrap();
        assert!(known.owners.len() == 1 && known.holders.len() == 1, "{known:?}");
    }

    #[test]
    fn an_id_that_a_server_gives_anew_changes_its_owner_unless_the_server_tells_callers_apart() {
        let mut known = KnownTasks::default();
        add(&mut known, "ann", 1).unwrap();
        known.add(&owner("bob"), task(1), working(), false, MAX, NOW).unwrap();
        assert!(["ann", "bob"].iter().all(|name| known.of(&owner(name), &task(1), NOW).is_some()));
        add(&mut known, "eve", 1).unwrap();
        let holders: Vec<_> = ["ann", "bob", "eve"].map(|name| known.of(&owner(name), &task(1), NOW).is_some()).into();
        assert_eq!(holders, [false, false, true]);
    }
}
