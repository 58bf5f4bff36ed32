//! A kept value that can be given up at any moment, such as state that can be requested again.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Account, Charge, Exhausted, Holding, Listed, Relief};

/// A value with its charge, until it is dropped or given up.
#[derive(Debug)]
pub struct Revocable<T: Send + 'static> {
    state: Arc<RevocableState<T>>,
    _listed: Option<Listed>,
}

#[derive(Debug)]
struct RevocableState<T> {
    relief: Relief,
    held: Mutex<Option<(T, Charge)>>,
}

// === impl Revocable ===

impl<T: Send + 'static> Revocable<T> {
    /// Keeps a value of so many bytes, which counts as this kind of thing when memory is short.
    ///
    /// # Errors
    ///
    /// There is no room for it.
    pub fn new(value: T, bytes: usize, account: &Account, relief: Relief) -> Result<Self, Exhausted> {
        Ok(Self::of(value, Charge::of(account.clone(), bytes)?, relief))
    }

    /// The same as [`Self::new`]. A holder within its share waits a moment for memory that others are about to give
    /// back.
    ///
    /// # Errors
    ///
    /// There is no room for it, or was none in time.
    pub async fn soon(value: T, bytes: usize, account: &Account, relief: Relief) -> Result<Self, Exhausted> {
        let mut charge = Charge::nothing(account.clone());
        charge.grow_soon(bytes).await?;
        Ok(Self::of(value, charge, relief))
    }

    fn of(value: T, charge: Charge, relief: Relief) -> Self {
        let account = charge.is_counted().then(|| charge.account().clone());
        let state = Arc::new(RevocableState { relief, held: Mutex::new(Some((value, charge))) });
        let holding: Weak<RevocableState<T>> = Arc::downgrade(&state);
        Self { state, _listed: account.map(|account| account.list(holding)) }
    }

    /// Reads or changes the value; `None` once it is given up. `read` must not charge anything.
    pub fn with<R>(&self, read: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.state.held.lock().as_mut().map(|(value, _)| read(value))
    }
}

impl<T: Send> Holding for RevocableState<T> {
    fn give_up(&self, _: &Account, relief: Relief) {
        if relief == self.relief {
            drop(self.held.lock().take());
        }
    }
}
