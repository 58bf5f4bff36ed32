//! A charge for something that only its owner can give up, such as a body being read: the owner is asked to.

use std::{future::pending, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Account, Charge, Exhausted, Holding, Listed, Relief};

/// A charge whose owner gives everything up once it is [reclaimed](Self::reclaimed). Dropping it gives the charge back.
#[derive(Debug)]
pub struct Claim {
    charge: Charge,
    /// Set from the first charged byte on.
    listed: Option<(Arc<ClaimState>, Listed)>,
}

#[derive(Debug, Default)]
struct ClaimState {
    reclaimed: CancellationToken,
    amounts: Mutex<Amounts>,
}

#[derive(Debug, Default)]
struct Amounts {
    charged: usize,
    /// The part of it that counts as leaving in the account.
    leaving: usize,
}

// === impl Claim ===

impl Claim {
    /// A claim to nothing.
    pub const fn nothing(account: Account) -> Self {
        Self { charge: Charge::nothing(account), listed: None }
    }

    /// A claim to so many bytes.
    ///
    /// # Errors
    ///
    /// There is no room for them.
    pub fn of(account: Account, bytes: usize) -> Result<Self, Exhausted> {
        let mut claim = Self::nothing(account);
        claim.grow(bytes)?;
        Ok(claim)
    }

    /// Adds so many bytes.
    ///
    /// # Errors
    ///
    /// There is no room for them, or the claim is reclaimed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if self.is_reclaimed() {
            return Err(Exhausted);
        }
        self.charge.grow(bytes)?;
        self.count();
        Ok(())
    }

    /// The same as [`Self::grow`]. A holder within its share waits a moment for memory that others are about to give
    /// back.
    ///
    /// # Errors
    ///
    /// There is no room for them, or was none in time; or the claim is reclaimed.
    pub async fn grow_soon(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if self.is_reclaimed() {
            return Err(Exhausted);
        }
        self.charge.grow_soon(bytes).await?;
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        if !self.charge.is_counted() {
            return;
        }
        let account = self.charge.account();
        let (state, _) = self.listed.get_or_insert_with(|| {
            let state = Arc::<ClaimState>::default();
            let holding: Arc<dyn Holding> = Arc::clone(&state) as Arc<dyn Holding>;
            let listed = account.list(Arc::downgrade(&holding));
            (state, listed)
        });
        state.amounts.lock().charged = self.charge.charged();
    }

    /// Takes so many bytes off.
    pub fn shrink(&mut self, bytes: usize) {
        self.charge.shrink(bytes);
        match &self.listed {
            Some((state, _)) if self.charge.is_counted() => state.amounts.lock().charged = self.charge.charged(),
            _ => self.unlist(),
        }
    }

    /// Gives everything back; the claim starts again from nothing.
    pub fn clear(&mut self) {
        self.unlist();
        self.charge.clear();
    }

    /// The size of the holding.
    pub const fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// True once the holding has to be given up.
    pub fn is_reclaimed(&self) -> bool {
        self.listed.as_ref().is_some_and(|(state, _)| state.reclaimed.is_cancelled())
    }

    /// Waits until the holding has to be given up, which may never happen.
    pub fn reclaimed(&self) -> impl Future<Output = Exhausted> + Send + use<> {
        let reclaimed = self.listed.as_ref().map(|(state, _)| state.reclaimed.clone());
        async move {
            match reclaimed {
                Some(reclaimed) => reclaimed.cancelled().await,
                None => pending().await,
            }
            Exhausted
        }
    }

    fn unlist(&mut self) {
        let Some((state, listed)) = self.listed.take() else { return };
        drop(listed);
        let mut amounts = state.amounts.lock();
        amounts.charged = 0;
        self.charge.account().left(std::mem::take(&mut amounts.leaving));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.unlist();
    }
}

// === impl ClaimState ===

impl Holding for ClaimState {
    fn give_up(&self, account: &Account, relief: Relief) {
        if relief != Relief::Calls || self.reclaimed.is_cancelled() {
            return;
        }
        let mut amounts = self.amounts.lock();
        amounts.leaving = amounts.charged;
        account.leaves(amounts.leaving);
        drop(amounts);
        self.reclaimed.cancel();
    }
}
