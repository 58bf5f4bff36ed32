//! One call at a backend, made once more where the connection was lost before it ran (`translation` 4c), and how it is
//! counted. Knows nothing of what carries it, and of the server's version.

use super::{remote::Backend, transport::NotSent};
use crate::{
    mcp::{ErrorObject, Event, Method, Outcome},
    model::OnLoss,
};

/// The attempts at one call.
pub(super) struct Attempts<'a> {
    backend: &'a Backend,
    method: &'a Method,
    /// How many there can be beside the present one.
    left: u8,
    /// Why the present one has not run.
    lost: Option<String>,
}

impl<'a> Attempts<'a> {
    /// The first one. There can be one more where the operator lets sessions be opened anew; no third, lest two sides chase
    /// each other.
    pub(super) fn of(backend: &'a Backend, method: &'a Method) -> Self {
        Self { backend, method, left: u8::from(backend.spec.on_loss == OnLoss::Reinit), lost: None }
    }

    /// The end of a call that is not made, since the server could not answer it.
    pub(super) fn refused(&self, error: ErrorObject) -> Event {
        self.backend.count(self.method, "error");
        Event::Done(Outcome::Failed(error))
    }

    /// What the present attempt gives to the caller; its end is counted.
    pub(super) fn take(&mut self, event: Result<Event, NotSent>) -> Option<Event> {
        match event {
            Ok(event) => {
                if let Event::Done(outcome) = &event {
                    self.backend.count_end(self.method, outcome);
                }
                Some(event)
            }
            Err(NotSent(reason)) => {
                self.lost = Some(reason);
                None
            }
        }
    }

    /// Whether the present attempt has not run.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether the call is to be made once more, now that there is nothing more to take: it has certainly not run, so that
    /// is no second time.
    pub(super) fn next(&mut self) -> Next {
        let Some(reason) = self.lost.take() else { return Next::Over };
        let Some(left) = self.left.checked_sub(1) else {
            self.backend.count(self.method, "lost");
            return Next::GivenUp(Event::Done(Outcome::Failed(self.backend.unavailable(&reason))));
        };
        self.left = left;
        Next::Again
    }
}

/// What follows an attempt.
pub(super) enum Next {
    /// Nothing: it ran.
    Over,
    /// Another.
    Again,
    /// None: the end of the call.
    GivenUp(Event),
}
