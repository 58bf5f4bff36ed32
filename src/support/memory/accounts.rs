//! The accounts that are open: one for each holder, as long as somebody has it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{AccountState, Holder};

#[derive(Default)]
pub(super) struct Accounts(HashMap<Holder, Weak<AccountState>>);

impl Accounts {
    /// The account of a holder, which `open` makes if there is none.
    pub(super) fn get_or_open(
        &mut self,
        holder: Holder,
        open: impl FnOnce(Holder) -> AccountState,
    ) -> Arc<AccountState> {
        if let Some(account) = self.0.get(&holder).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(open(holder.clone()));
        self.0.insert(holder, Arc::downgrade(&account));
        account
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Weak<AccountState>> {
        self.0.values()
    }

    /// Forgets the account of a holder that nobody has any more; another one may have been opened since.
    pub(super) fn close(&mut self, holder: &Holder) {
        if self.0.get(holder).is_some_and(|account| account.strong_count() == 0) {
            self.0.remove(holder);
        }
    }
}
