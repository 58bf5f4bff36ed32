//! The entries of the merged endpoint in the versions of those who look at them. Knows nothing of pages.
//!
//! One list of the merged endpoint holds entries of servers of several versions, and has one version itself. So each
//! entry is carried to the version of the client by itself, once for all clients that are spoken to alike.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    Kind,
    list::{Entry, List},
};
use crate::mcp::{
    Facts, Payload, Revision,
    json::Object,
    translate::{self, Profile},
};

/// The entries of one list in the list's order; `None` for one that the version has no form for.
pub(crate) type Shown = Arc<[Option<Bytes>]>;

/// What has been carried already, by version and profile: no more than there are of both.
#[derive(Debug, Default)]
pub(super) struct Carried(Mutex<Vec<(Revision, Profile, Shown)>>);

impl List {
    /// The entries with the names of the merged endpoint, as a client of `revision` is shown them.
    pub(crate) fn shown(&self, kind: Kind, revision: Revision, profile: Profile) -> Shown {
        let alike = |(of, with, _): &&(Revision, Profile, Shown)| (*of, *with) == (revision, profile);
        if let Some((.., shown)) = self.carried.0.lock().iter().find(alike) {
            return Arc::clone(shown);
        }
        let shown: Shown = self.entries.iter().map(|entry| self.carry(entry, kind, (revision, profile))).collect();
        let mut carried = self.carried.0.lock();
        if carried.iter().all(|one| !alike(&one)) {
            carried.push((revision, profile, Arc::clone(&shown)));
        }
        shown
    }

    fn carry(&self, entry: &Entry, kind: Kind, (revision, profile): (Revision, Profile)) -> Option<Bytes> {
        if !entry.valid_in.has(revision) {
            return None;
        }
        if self.revision.is_none_or(|written| written == revision) {
            return Some(entry.merged.clone());
        }
        let method = kind.method();
        let facts = Facts { profile, ..Facts::new(translate::Kind::Result, &method) };
        let alone = [format!("{{\"{}\":[", kind.member()).as_bytes(), &entry.merged, b"]}"].concat();
        let alone = Payload::new(self.revision?, alone.into());
        let carried = alone.into_revision(revision, &facts).inspect_err(translate::Untranslatable::report).ok()?;
        let object = Object::parse(carried.json())?;
        let inner = object.get(kind.member())?.strip_prefix('[')?.strip_suffix(']')?.trim().as_bytes();
        match inner {
            [] => None,
            same if same == entry.merged => Some(entry.merged.clone()),
            other => Some(Bytes::copy_from_slice(other)),
        }
    }
}
