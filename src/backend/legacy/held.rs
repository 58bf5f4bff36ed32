//! Questions that a server asked outside of any call while nobody listened: each is held for the next call in which the
//! client can be asked (`translation` 4b.2 (v)). Servers ask for the roots so, as soon as the handshake is done.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::Session;
use crate::mcp::{Event, Question, RequestId};

/// How long each is held.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many are held at once; what comes beyond is refused.
const MOST: usize = 16;

impl Session {
    /// Holds a question for the next call. Where none comes, it is refused by being dropped.
    pub(super) fn hold(self: &Arc<Self>, id: RequestId, question: Question) {
        {
            let mut held = self.held.lock();
            if held.len() >= MOST {
                return;
            }
            held.push((id.clone(), question));
        }
        let session = Arc::clone(self);
        self.about.tasks.spawn(async move {
            tokio::select! {
                () = sleep(PATIENCE) => {}
                _ = session.over() => {}
            }
            session.held.lock().retain(|(other, _)| *other != id);
        });
    }

    /// Puts what is held into a call that has just begun.
    pub(super) fn ask_held(&self, call: u64) {
        let held = std::mem::take(&mut *self.held.lock());
        for (id, question) in held {
            self.carried(&id, call, &question.params);
            self.deliver(call, Event::Asked(question));
        }
    }
}
