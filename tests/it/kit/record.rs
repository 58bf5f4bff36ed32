//! Everything that the servers of a test received: tests inspect it, and servers wait for it.

use std::sync::Arc;

use lockkeeper::mcp::Revision;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

/// The record of all servers of a test.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pages: Mutex<Vec<Page>>,
    changed: watch::Sender<()>,
}

/// What one server received; on a channel, one page for each connection.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) version: Revision,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A message, and the method of the server's own request that it answers.
    Received { question: Option<String>, message: Value },
    /// The client closed the exchange of the request with this id.
    Closed(Value),
    /// The findings of the call with this mark.
    Noted { mark: Value, told: Value },
    /// A violation of the specification.
    Fault(String),
}

/// The writing end of one page.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    pub(crate) record: Arc<Record>,
    page: usize,
}

// === impl Record ===

impl Record {
    /// A new page, for a server of this version.
    pub(crate) fn begin(self: &Arc<Self>, version: Revision) -> Notes {
        let mut pages = self.pages.lock();
        pages.push(Page { version, entries: Vec::new() });
        Notes { record: Arc::clone(self), page: pages.len() - 1 }
    }

    pub(crate) fn pages(&self) -> Vec<Page> {
        self.pages.lock().clone()
    }

    /// The first result of `look` on any page, as soon as there is one.
    pub(crate) async fn found<T>(&self, look: impl Fn(&[Entry]) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            let found = self.pages.lock().iter().find_map(|page| look(&page.entries));
            if let Some(found) = found {
                return found;
            }
            // the sender lives as long as this record
            let _ = changes.changed().await;
        }
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn message(&self) -> Option<&Value> {
        match self {
            Self::Received { message, .. } => Some(message),
            Self::Closed(_) | Self::Noted { .. } | Self::Fault(_) => None,
        }
    }
}

// === impl Notes ===

impl Notes {
    pub(crate) fn write(&self, entry: Entry) {
        self.record.pages.lock()[self.page].entries.push(entry);
        self.record.changed.send_replace(());
    }

    pub(crate) fn fault(&self, text: impl Into<String>) {
        self.write(Entry::Fault(text.into()));
    }
}
