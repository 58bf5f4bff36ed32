//! Lists that servers of several users gave alike: they are held once. Knows nothing of whose they are.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::list::List;
use crate::{mcp::ListKind, support::Digest};

/// The lists of one backend, by what was written.
#[derive(Default)]
pub(super) struct AlikeLists(Mutex<ListsByDigest>);

#[derive(Default)]
struct ListsByDigest {
    lists: HashMap<(ListKind, Digest), Weak<List>>,
    /// The number at which those that nobody holds are forgotten.
    sweep_at: usize,
}

// === impl AlikeLists ===

impl AlikeLists {
    /// The list that others hold already, if the same bytes were written; else this one, for those who come next.
    pub(super) fn shared(&self, kind: ListKind, list: List) -> Arc<List> {
        let list = Arc::new(list);
        let Some(written) = list.written else { return list };
        let mut known = self.0.lock();
        if let Some(same) = known.lists.get(&(kind, written)).and_then(Weak::upgrade) {
            drop(known);
            return same;
        }
        known.lists.insert((kind, written), Arc::downgrade(&list));
        if known.lists.len() > known.sweep_at {
            known.lists.retain(|_, list| list.strong_count() > 0);
            known.sweep_at = 2 * known.lists.len() + 16;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> List {
        let mut list = List::empty();
        list.written = Some(Digest::sha256(text));
        list
    }

    #[test]
    fn lists_that_were_written_alike_are_one_as_long_as_anybody_holds_it() {
        let alike = AlikeLists::default();
        let first = alike.shared(ListKind::Tools, list("a"));
        assert!(Arc::ptr_eq(&first, &alike.shared(ListKind::Tools, list("a"))));
        assert!(!Arc::ptr_eq(&first, &alike.shared(ListKind::Tools, list("b"))));
        assert!(!Arc::ptr_eq(&first, &alike.shared(ListKind::Prompts, list("a"))), "of another kind");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        for number in 0..1_000 {
            alike.shared(ListKind::Tools, list(&number.to_string()));
        }
        assert!(alike.0.lock().lists.len() < 100, "those that nobody holds are forgotten");
    }
}
