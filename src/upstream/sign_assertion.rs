//! Signs claims in the gateway's name.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::support::Secret;

/// Signs claims with a key of the gateway's key set; `None` if it cannot.
#[derive(Clone)]
pub struct SignAssertion(Arc<Sign>);

type Sign = dyn Fn(&Value) -> Option<Secret> + Send + Sync;

// === impl SignAssertion ===

impl SignAssertion {
    pub fn new(sign: impl Fn(&Value) -> Option<Secret> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    pub(super) fn sign(&self, claims: &Value) -> Option<Secret> {
        (self.0)(claims)
    }
}

impl fmt::Debug for SignAssertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignAssertion")
    }
}
