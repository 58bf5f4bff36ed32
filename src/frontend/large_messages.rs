//! Large messages of clients: looked through on other threads, so that other connections of a worker do not wait. Each user has
//! one at a time there, and all together half of the cores.

use std::{future::pending, num::NonZero, panic::resume_unwind, thread};

use bytes::Bytes;
use tokio::task::{JoinError, spawn_blocking};

use crate::{
    model::UserId,
    support::fair_turns::{FairTurn, FairTurns},
};

/// Minimum size of a large message in bytes.
const LARGE: usize = 64 * 1024;

/// The turns to look through large messages.
#[derive(Debug)]
pub(crate) struct LargeMessages(FairTurns<UserId>);

// === impl LargeMessages ===

impl LargeMessages {
    /// Applies `look`, such as a parser, to the text of a message of this user.
    pub(crate) async fn look_into<T: Send + 'static>(
        &self,
        user: &UserId,
        text: Bytes,
        look: impl FnOnce(&Bytes) -> T + Send + 'static,
    ) -> T {
        if text.len() < LARGE {
            return look(&text);
        }
        let turn = self.0.take(user.clone()).await;
        // the work goes on if nobody waits for it any more, and keeps its turn
        let work = move |_turn: FairTurn<UserId>| look(&text);
        match spawn_blocking(move || work(turn)).await.map_err(JoinError::try_into_panic) {
            Ok(found) => found,
            Err(Ok(panic)) => resume_unwind(panic),
            // the runtime is shutting down
            Err(Err(_)) => pending().await,
        }
    }
}

impl Default for LargeMessages {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self(FairTurns::new(cores / 2))
    }
}
