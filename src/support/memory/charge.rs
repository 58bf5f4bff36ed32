//! The charge for one holding, which grows and shrinks with it.

use super::{Account, Exhausted, STEP};

/// The charge for one holding. Dropping it gives everything back.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
    /// The charged bytes: a multiple of [`STEP`], less than one step below `bytes`.
    charged: usize,
}

// === impl Charge ===

impl Charge {
    /// A charge of nothing.
    pub const fn nothing(account: Account) -> Self {
        Self { account, bytes: 0, charged: 0 }
    }

    /// A charge of so many bytes.
    ///
    /// # Errors
    ///
    /// There is no room for them.
    pub fn of(account: Account, bytes: usize) -> Result<Self, Exhausted> {
        let mut charge = Self::nothing(account);
        charge.grow(bytes)?;
        Ok(charge)
    }

    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// The size of the holding.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds so many bytes.
    ///
    /// # Errors
    ///
    /// There is no room for them; then nothing has changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let charged = steps(self.bytes.saturating_add(bytes));
        if charged > self.charged {
            self.account.take(charged - self.charged)?;
            self.charged = charged;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// The same as [`Self::grow`]. A holder within its share waits a moment for memory that others are about to give
    /// back. Cancel safe.
    ///
    /// # Errors
    ///
    /// There is no room for them, or was none in time.
    pub async fn grow_soon(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let charged = steps(self.bytes.saturating_add(bytes));
        if charged > self.charged {
            self.account.take_soon(charged - self.charged).await?;
            self.charged = charged;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes so many bytes off.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        let charged = steps(self.bytes);
        if charged < self.charged {
            self.account.give_back(self.charged - charged);
            self.charged = charged;
        }
    }

    pub fn clear(&mut self) {
        self.shrink(self.bytes);
    }

    /// True if anything is charged: the holding is more than its free bytes.
    pub const fn is_counted(&self) -> bool {
        self.charged > 0
    }

    pub(super) const fn charged(&self) -> usize {
        self.charged
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

const fn steps(bytes: usize) -> usize {
    bytes / STEP * STEP
}
