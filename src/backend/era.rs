//! In which manner one backend is spoken to, and how that is known (`translation` 2.7). Knows nothing of asking.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    mcp::Era,
    model::{
        BackendSpec, EraChoice,
        status::{EraStatus, Found},
    },
    support::{Clock, Timestamp},
};

/// How long it is believed that a server is of the older kind: it would go on to work when it is not, and nobody would know.
const LEGACY_FOR: Duration = Duration::from_hours(24);

/// In which manner a backend is spoken to. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct Known {
    verdict: Arc<watch::Sender<Option<Verdict>>>,
    clock: Arc<dyn Clock>,
}

/// The manner, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    era: Era,
    found: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Configured,
    Probed(Timestamp),
    Cached(Timestamp),
}

impl Known {
    /// What the operator says, if anything.
    pub(crate) fn new(spec: &BackendSpec, clock: &Arc<dyn Clock>) -> Self {
        let configured = |era| Some(Verdict { era, found: Source::Configured });
        let verdict = watch::Sender::new(match spec.era {
            EraChoice::Auto => None,
            EraChoice::Modern => configured(Era::Modern),
            EraChoice::Legacy => configured(Era::Legacy),
        });
        Self { verdict: Arc::new(verdict), clock: Arc::clone(clock) }
    }

    /// The era, where it is known.
    pub(crate) fn now(&self) -> Option<Era> {
        self.verdict.borrow().map(|verdict| verdict.era)
    }

    /// Waits until the era is known.
    pub(crate) async fn wait(&self) -> Era {
        let mut changes = self.verdict.subscribe();
        let known = changes.wait_for(Option::is_some).await.ok().and_then(|verdict| *verdict);
        match known {
            Some(verdict) => verdict.era,
            // the sender is this one
            None => std::future::pending().await,
        }
    }

    /// Waits until the era is another than `era`.
    pub(crate) async fn turned_from(self, era: Era) {
        let mut changes = self.verdict.subscribe();
        let _ = changes.wait_for(|verdict| verdict.is_some_and(|verdict| verdict.era != era)).await;
    }

    /// The era to begin the next life with: what is known is used again, for as long as it can be believed; `None` where it
    /// is to be found out.
    pub(crate) fn again(&self) -> Option<Era> {
        let mut known = None;
        let now = self.clock.now();
        self.verdict.send_if_modified(|verdict| {
            let Some(Verdict { era, found }) = *verdict else { return false };
            let (Source::Probed(at) | Source::Cached(at)) = found else {
                known = Some(era);
                return false;
            };
            if era == Era::Modern || now.since(at) < LEGACY_FOR {
                known = Some(era);
                *verdict = Some(Verdict { era, found: Source::Cached(at) });
                return true;
            }
            false
        });
        known
    }

    /// Notes what was found out.
    pub(crate) fn found(&self, era: Era) {
        let found = Source::Probed(self.clock.now());
        self.verdict.send_if_modified(|verdict| {
            let news = !matches!(verdict, Some(Verdict { found: Source::Configured, .. }));
            if news {
                *verdict = Some(Verdict { era, found });
            }
            news
        });
    }

    /// Whether the operator has said it.
    pub(crate) fn is_configured(&self) -> bool {
        self.verdict.borrow().is_some_and(|verdict| verdict.found == Source::Configured)
    }

    /// What people and machines are shown.
    pub(crate) fn status(&self) -> Option<EraStatus> {
        let Verdict { era, found } = (*self.verdict.borrow())?;
        let (found, since) = match found {
            Source::Configured => (Found::Configured, None),
            Source::Probed(at) => (Found::Probed, Some(at)),
            Source::Cached(at) => (Found::Cached, Some(at)),
        };
        let era = if era == Era::Modern { "modern" } else { "legacy" };
        Some(EraStatus { era: era.to_owned(), found, since: since.map(|at| at.to_string()) })
    }
}
