//! The server requests that one call carries to its client: they are sent, answered, repeated or cancelled.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio_util::task::TaskTracker;

use super::Session;
use crate::{
    frontend::server_requests::{OutgoingRequest, RequestEnd},
    mcp::{
        Message, Method, RequestId, json,
        large_messages::{MessageOwner, OffWorker},
        pending_request::PendingRequest,
    },
};

/// The server requests that one call carries to its client.
#[derive(Default)]
pub(super) struct CallRequests {
    /// The waits for the answers.
    waits: FuturesUnordered<BoxFuture<'static, RequestEnd>>,
    open: Vec<RequestId>,
}

impl CallRequests {
    /// Sends a request. Returns the message for the client; `None` if the client has too many open requests.
    pub(super) fn send(&mut self, session: &Session, pending: PendingRequest) -> Option<Message> {
        let OutgoingRequest { id, method, params, wait } = session.requests.send(pending)?;
        self.waits.push(wait);
        self.open.push(id.clone());
        Some(Message::Request { id, method, params: params.into_params() })
    }

    /// The next message about the open requests: a cancellation, or a repeated request. `None` if none is open.
    pub(super) fn poll_next(&mut self, session: &Session, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        while let Some(end) = ready!(self.waits.poll_next_unpin(cx)) {
            self.open.retain(|open| open != end.id());
            let message = match end {
                RequestEnd::Answered(_) => None,
                RequestEnd::AskAgain(_, pending) => self.send(session, *pending),
                RequestEnd::Withdrawn(id) => Some(withdrawal(&id, "the server no longer waits for the answer")),
                RequestEnd::Expired(id) => Some(withdrawal(&id, "the answer did not come in time")),
            };
            if message.is_some() {
                return Poll::Ready(message);
            }
        }
        Poll::Ready(None)
    }

    /// Cancels the open requests. Returns the messages for the client.
    pub(super) fn withdraw(self) -> impl Iterator<Item = Message> {
        self.open.into_iter().map(|id| withdrawal(&id, "the call that it belonged to ended"))
    }

    /// Lets the open requests outlive the call. On a channel, the server may have sent them outside of the call, and it
    /// cancels them itself if it no longer needs them. Further messages about them go to a standalone stream.
    pub(super) fn detach(mut self, session: &Arc<Session>, tracker: &TaskTracker) {
        if self.open.is_empty() {
            return;
        }
        let session = Arc::clone(session);
        let owner = MessageOwner::User(session.owner.user.clone());
        let rest = async move {
            let messages = async {
                while let Some(message) = poll_fn(|cx| self.poll_next(&session, cx)).await {
                    session.queue.push(message);
                }
            };
            session.ended.run_until_cancelled(messages).await;
        };
        tracker.spawn(OffWorker::future(owner, Box::pin(rest)));
    }
}

fn withdrawal(id: &RequestId, reason: &str) -> Message {
    let id = String::from_utf8_lossy(id.json());
    let params = format!(r#"{{"requestId":{id},"reason":{}}}"#, json::quote(reason));
    Message::Notification { method: Method::Cancelled, params: params.into() }
}
