//! Server requests that stay open on a shared channel while other calls wait (`translation` 4b.1): the gateway closes
//! them, and cancels calls that the server does not finish afterwards.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{calls::cancellation, server_requests::ServerRequests};
use crate::{
    mcp::{CancelReason, ErrorObject, Revision},
    model::BackendId,
};

/// Maximum time for a server to finish a call whose request was closed.
pub(crate) const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// `reason` in the data of the error of such a call.
const QUESTION_CLOSED: &str = "question_closed";

impl ServerRequests {
    /// The latest time when a server request was closed, among the open calls and the recently cancelled ones. The
    /// slot of that call becomes free, so no other one has to be taken back yet.
    pub(crate) fn latest_closed(&self) -> Option<Instant> {
        self.calls().latest_closed()
    }

    /// Closes all server requests of every call that has one open for `time` or longer. Clients see their requests
    /// cancelled.
    pub(crate) fn close_after(&self, time: Duration) {
        for call in self.carriers_after(time) {
            let answers = self.close_of(call);
            // a call occurs once for each of its requests
            if answers.is_empty() {
                continue;
            }
            metrics::counter!("lockkeeper_server_requests_closed_total").increment(1);
            tracing::debug!(server = %self.backend(), call, "a server request was closed since other calls wait");
            self.calls().change(call, |call| call.request_closed = Some(Instant::now()));
            self.sender().send_in_order(answers);
        }
    }

    /// The error of a call that the server finished after its request was closed. `revision` is the server's version.
    pub(super) fn yielded(&self, revision: Revision) -> ErrorObject {
        closed_error(self.backend(), "").written_in(revision)
    }

    /// Cancels each call that the server did not finish within [`FINISH_TIMEOUT`] after its request was closed.
    pub(crate) fn cancel_unfinished(&self) {
        for id in self.calls().closed_for(FINISH_TIMEOUT) {
            let error = {
                let seconds = FINISH_TIMEOUT.as_secs();
                let ending = format!("the server did not finish the call within {seconds} s, so it was cancelled; ");
                closed_error(self.backend(), &ending)
            };
            if !self.calls().give_up_with(id, error) {
                continue;
            }
            let mut messages = self.close_of(id);
            messages.push(cancellation(id, &CancelReason::new("its question was closed and it did not end")));
            self.sender().send_in_order(messages);
        }
    }
}

/// The error of a call whose server request was closed.
fn closed_error(backend: &BackendId, what_followed: &str) -> ErrorObject {
    let text = format!(
        "Server `{backend}`: a server request of this call was unanswered while no process was free for other calls, so it was \
         closed; {what_followed}call again and answer sooner",
    );
    ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, &text, &json!({ "reason": QUESTION_CLOSED }))
}
