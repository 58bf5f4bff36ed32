//! The server's messages during a call: notifications, and requests to the client.

use super::{CallInProgress, ExchangeReader, ExchangeSubject};
use crate::mcp::{
    ErrorObject, Level, ListKind, Message, Method, Notification, Payload, ServerRequest, declared::can_be_asked,
    pending_request::PendingRequest,
};

// === impl CallInProgress ===

impl CallInProgress {
    /// A notification for the client; `None` if the client does not want it.
    pub(super) fn notification(&self, notification: Notification) -> Option<Message> {
        let is_update = notification.method == Method::ResourceUpdated;
        let is_read = self.reader == ExchangeReader::Messages;
        if self.reader == ExchangeReader::Gone && !is_update || !is_wanted(&notification, self.session.level()) {
            return None;
        }
        let is_of_call = matches!(self.subject, ExchangeSubject::Request(_));
        let is_change = !ListKind::changed_by(&notification.method).is_empty();
        if !is_read && is_change {
            // the listen sends it
            return None;
        }
        if !is_read && !is_update {
            metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            return None;
        }
        if is_of_call
            && is_change
            && !self.session.changes_in_calls.takes(&notification.method, self.session.queue.open_streams())
        {
            return None;
        }
        let Notification { method, params } = self.translator.notification(notification)?;
        let params = self.of_subscriber(Some(&method), params);
        let message = Message::Notification { method, params: params.into_params() };
        if !is_read {
            // the call has no reader, and no listen sends this message
            self.session.queue.push(message);
            return None;
        }
        Some(message)
    }

    /// Sends a server request if the client supports it: the client declared the capability, its version has the
    /// request, and a stream to it is open.
    pub(super) fn ask(&mut self, question: ServerRequest) -> Option<Message> {
        if let Err(error) = self.may_ask(&question.method, &question.params) {
            metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
            if let Some(error) = error {
                question.answer.give(Err(error));
            }
            return None;
        }
        if self.reader == ExchangeReader::Response {
            metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
            question.answer.give(Err(ErrorObject::invalid_params("the client of this call cannot be asked")));
            return self.finish(Err(needs_events(&question.method)));
        }
        match PendingRequest::new(question, &self.translator) {
            Ok(pending) => self.requests.get_or_insert_default().send(&self.session, pending),
            Err((answer, error)) => {
                answer.give(Err(error));
                None
            }
        }
    }

    /// Checks that the client supports the request. The error is for the server; it is `None` if no client can be
    /// reached.
    fn may_ask(&self, method: &Method, params: &Payload) -> Result<(), Option<ErrorObject>> {
        let Some(client) = self.session.client() else { return Err(None) };
        can_be_asked(client, method, params).map_err(Some)?;
        let reachable = match self.subject {
            ExchangeSubject::Request(_) => self.reader != ExchangeReader::Gone,
            ExchangeSubject::Listen => self.session.queue.open_streams() > 0,
        };
        // 2025-11-25 lifecycle: before `initialized` a server sends only pings
        if reachable && self.session.is_initialized() { Ok(()) } else { Err(None) }
    }
}

/// The error for a server whose client cannot get requests, because it accepts only JSON.
fn needs_events(method: &Method) -> ErrorObject {
    ErrorObject::lost(&format!(
        "The server sent `{method}` during this call, and your Accept header lists application/json alone: what a server asks comes \
         as an event. The gateway ended the call, which may have run in part: send it with `Accept: application/json, \
         text/event-stream`"
    ))
}

/// False for a log message below the client's level.
fn is_wanted(notification: &Notification, level: Option<Level>) -> bool {
    let (Method::LoggingMessage, Some(lowest)) = (&notification.method, level) else { return true };
    notification.params.string("level").and_then(|name| Level::parse(&name)).is_none_or(|level| level >= lowest)
}
