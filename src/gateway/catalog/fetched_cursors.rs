//! The cursors of one list during a fetch.

use std::collections::HashSet;

use crate::mcp::Payload;

/// The cursors that a server has sent so far.
#[derive(Debug, Default)]
pub(super) struct FetchedCursors(HashSet<String>);

/// The next step after a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextPage {
    At(String),
    End,
    /// The page was fetched before: fetching would never end.
    Loop,
}

// === impl FetchedCursors ===

impl FetchedCursors {
    /// The step after `page`.
    pub(super) fn after(&mut self, page: &Payload) -> NextPage {
        match page.string("nextCursor") {
            None => NextPage::End,
            Some(next) if self.0.insert(next.clone()) => NextPage::At(next),
            Some(_) => NextPage::Loop,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Revision;

    #[test]
    fn a_cursor_that_comes_again_is_a_loop() {
        let mut cursors = FetchedCursors::default();
        let mut after = |next: &str| cursors.after(&Payload::of(Revision::V2025_11_25, &json!({ "nextCursor": next })));
        assert_eq!(
            ["a", "b", "a"].map(&mut after),
            [NextPage::At("a".into()), NextPage::At("b".into()), NextPage::Loop]
        );
        assert_eq!(cursors.after(&Payload::empty(Revision::V2025_11_25)), NextPage::End);
    }
}
