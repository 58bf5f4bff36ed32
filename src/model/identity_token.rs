//! The signed statement about the caller, for one connection: signed on first use, and again shortly before its end.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::CallerIdentity;
use crate::support::{Clock, Secret, Timestamp};

/// Signs a statement about the caller, for an audience; `None` if that is not possible.
pub type IdentitySigner = Arc<dyn Fn(&CallerIdentity, &str) -> Option<SignedIdentity> + Send + Sync>;

#[derive(Debug, Clone)]
pub struct SignedIdentity {
    pub token: Secret,
    /// Time to replace it.
    pub renewed_at: Timestamp,
}

/// The statement of one connection. Its clones share it.
#[derive(Clone)]
pub struct IdentityToken(Arc<Inner>);

struct Inner {
    /// The header that carries it.
    header: String,
    audience: String,
    caller: CallerIdentity,
    signer: IdentitySigner,
    clock: Arc<dyn Clock>,
    current: Mutex<Option<SignedIdentity>>,
}

// === impl IdentityToken ===

impl IdentityToken {
    /// The statement about `caller`, for `header`.
    pub fn new(
        header: &str,
        audience: &str,
        caller: &CallerIdentity,
        signer: &IdentitySigner,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self(Arc::new(Inner {
            header: header.to_owned(),
            audience: audience.to_owned(),
            caller: caller.clone(),
            signer: Arc::clone(signer),
            clock: Arc::clone(clock),
            current: Mutex::default(),
        }))
    }

    /// The header that carries it.
    pub fn header(&self) -> &str {
        &self.0.header
    }

    /// The value of that header: the statement, after the scheme in `Authorization`. `None` if it cannot be signed.
    pub fn value(&self) -> Option<Secret> {
        let mut current = self.0.current.lock();
        let now = self.0.clock.now();
        if let Some(signed) = current.as_ref().filter(|signed| now < signed.renewed_at) {
            return Some(signed.token.clone());
        }
        let SignedIdentity { token, renewed_at } = (self.0.signer)(&self.0.caller, &self.0.audience)?;
        let token = if self.0.header == "authorization" { format!("Bearer {}", token.expose()).into() } else { token };
        *current = Some(SignedIdentity { token: token.clone(), renewed_at });
        Some(token)
    }
}

/// Two are equal if they share their statement.
impl PartialEq for IdentityToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for IdentityToken {}

impl fmt::Debug for IdentityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityToken(…)")
    }
}
