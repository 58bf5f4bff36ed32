//! The server that wrote a payload. Remembers which missing features were already logged for this server.

use std::{collections::HashSet, fmt, sync::Arc};

use parking_lot::Mutex;

use crate::{
    model::BackendId,
    support::{Account, printable_name},
};

/// Maximum number of features that are logged for one server. A server can invent methods, which must not fill the
/// memory; the rest are only counted.
const MAX_LOGGED: usize = 100;
/// Maximum length of a feature's name in the log, in characters, because a server can choose the name.
const MAX_FEATURE: usize = 100;

/// A server as the author of payloads. Each backend creates one, and its payloads share it. Cheap to clone.
#[derive(Clone)]
pub struct ServerOrigin(Arc<OriginState>);

struct OriginState {
    backend: BackendId,
    /// The account charged for messages that the server sends unasked.
    account: Account,
    /// The features that some client lacked and that were already logged.
    logged: Mutex<HashSet<String>>,
}

// === impl ServerOrigin ===

impl ServerOrigin {
    /// Creates the origin for this backend, with nothing logged yet.
    pub fn new(backend: BackendId, account: Account) -> Self {
        Self(Arc::new(OriginState { backend, account, logged: Mutex::default() }))
    }

    /// The account charged for messages that the server sends unasked.
    pub fn account(&self) -> Account {
        self.0.account.clone()
    }

    pub fn backend(&self) -> &BackendId {
        &self.0.backend
    }

    /// The name of `feature` to log; `None` if it was logged before, or if [`MAX_LOGGED`] features were.
    pub(super) fn first_refusal(&self, feature: &str) -> Option<String> {
        let feature = printable_name(feature, MAX_FEATURE);
        let mut logged = self.0.logged.lock();
        let is_new = logged.len() < MAX_LOGGED && logged.insert(feature.clone());
        is_new.then_some(feature)
    }
}

impl PartialEq for ServerOrigin {
    fn eq(&self, other: &Self) -> bool {
        self.backend() == other.backend()
    }
}

impl Eq for ServerOrigin {}

impl fmt::Debug for ServerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerOrigin").field(self.backend()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{LackingFeature, Revision, Untranslatable, translate::Cause};
    use tracing_subscriber::{Layer, layer, prelude::*};

    /// The server names in the lines of the log.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &tracing::Event<'_>, _: layer::Context<'_, S>) {
            event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
                if field.name() == "server" {
                    self.0.lock().push(format!("{value:?}").trim_matches('"').to_owned());
                }
            });
        }
    }

    fn refused(origin: &ServerOrigin, feature: String) {
        let (from, to) = (Revision::V2025_11_25, Revision::V2026_07_28);
        let feature = LackingFeature::Method(feature);
        let refusal = Untranslatable { feature, from, to, origin: None, cause: Cause::VendorRequest };
        refusal.of(Some(origin)).report();
    }

    #[test]
    fn a_server_that_invents_methods_silences_no_line_about_another() {
        let server = |name| ServerOrigin::new(BackendId::parse(name).unwrap(), Account::unbounded());
        let (noisy, quiet) = (server("noisy"), server("quiet"));
        let lines = Lines::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), || {
            for number in 0..=2 * MAX_LOGGED {
                refused(&noisy, format!("x-invented/{number}"));
            }
            refused(&quiet, "x-vendor/do".to_owned());
            refused(&quiet, "x-vendor/do".to_owned());
        });
        let lines = lines.0.lock();
        let of = |name: &str| lines.iter().filter(|backend| *backend == name).count();
        assert_eq!((of("noisy"), of("quiet")), (MAX_LOGGED, 1));
    }

    #[test]
    fn a_long_name_is_kept_only_in_part() {
        let noisy = ServerOrigin::new(BackendId::parse("noisy").unwrap(), Account::unbounded());
        refused(&noisy, "x".repeat(1 << 20));
        assert!(noisy.0.logged.lock().iter().all(|feature| feature.len() == MAX_FEATURE));
    }
}
