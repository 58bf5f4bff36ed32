//! Why a call found nothing that serves it in the manner in which it was to be served.

use std::sync::Arc;

use super::served::Backend;
use crate::mcp::{Call, Era, ErrorObject, Method, Reply};

/// Why a call was not begun.
pub(crate) enum Missed {
    /// There is nothing that could serve it.
    Unavailable(ErrorObject),
    /// The server was found to be of this era in this moment.
    Turned(Era),
}

impl Backend {
    /// The answer to a call that was not begun: it is served in the other manner where that is how the server is spoken to
    /// now. What it says of a task is of one that has ended with the processes of the other era.
    pub(super) fn missed(self: Arc<Self>, missed: Missed, call: Call) -> Reply {
        match missed {
            Missed::Turned(era) if !(call.method.is_of_core_tasks() || call.method == Method::TasksUpdate) => {
                self.dispatch(era, call)
            }
            missed => {
                self.count(&call.method, "unavailable");
                Reply::failed(self.missed_error(missed))
            }
        }
    }

    /// The error of a call that was not begun.
    pub(super) fn missed_error(&self, missed: Missed) -> ErrorObject {
        match missed {
            Missed::Unavailable(error) => error,
            Missed::Turned(_) => self.unavailable("it was found to be of another era in this moment; try again"),
        }
    }
}
