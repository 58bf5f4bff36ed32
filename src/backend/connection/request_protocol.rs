//! Protocol of servers without sessions (2026-07-28): each request is self-contained, with its own envelope, and each
//! notification belongs to one.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};

use super::{
    announcements::{announce, is_announcement},
    calls::{CallKind, Sharing, subscription},
    listen,
    receive::unreadable,
    state::{ConnectionContext, Protocol, ServerConnection},
};
use crate::{
    backend::interests::Topic,
    mcp::{
        ClientInfo, Era, ErrorObject, Event, Facts, Level, Method, Notification, Outcome, Payload, RequestId, Revision,
        jsonrpc::returned_number,
        translate::{with_envelope, without_invalid_header_params},
    },
    model::{Delivery, HeaderParams},
};

/// The protocol of servers without sessions (2026-07-28).
pub(crate) struct RequestProtocol;

// === impl RequestProtocol ===

impl Protocol for RequestProtocol {
    fn era(&self) -> Era {
        Era::Modern
    }

    fn newest(&self) -> Revision {
        Revision::NEWEST_MODERN
    }

    fn follow_interests(&self, connection: Arc<ServerConnection>) -> BoxFuture<'static, ()> {
        listen::run(connection).boxed()
    }

    fn sharing(&self, context: &ConnectionContext) -> Sharing {
        // on exchanges, there are no messages outside of them (2026-07-28, transports)
        let has_exchanges = context.abilities.delivery == Delivery::Exchange;
        if has_exchanges || context.is_of_one_client { Sharing::Unambiguous } else { Sharing::Ambiguous }
    }

    fn kind(&self, _: &Method) -> CallKind {
        CallKind::Plain
    }

    /// Adds the envelope of the client; in calls of its own, that of the gateway.
    fn params(
        &self,
        connection: &ServerConnection,
        params: Payload,
        facts: &Facts<'_>,
    ) -> Result<Payload, ErrorObject> {
        let gateway;
        let client = if let Some(client) = facts.client {
            client
        } else {
            gateway = ClientInfo::gateway();
            &gateway
        };
        // translation has added the envelope to parameters of older versions
        if params.revision == connection.revision() {
            return Ok(with_envelope(params, client));
        }
        let facts = Facts { client: Some(client), ..*facts };
        params.into_revision(connection.revision(), &facts).map_err(|refusal| {
            let refusal = refusal.of(Some(&connection.context.origin));
            refusal.report();
            refusal.error()
        })
    }

    fn level(&self, level: Option<Level>) -> Option<Level> {
        level
    }

    fn received(&self, connection: &ServerConnection, json: Bytes) -> Payload {
        Payload::new(connection.revision(), json).written_by(&connection.context.origin)
    }

    fn outcome(&self, connection: &ServerConnection, _: u64, method: &Method, result: Payload) -> Outcome {
        let backend = &connection.context.backend;
        let outcome = match Outcome::of_result(backend, result) {
            Outcome::Complete(result) => Outcome::of_modern(method, result),
            outcome => outcome,
        };
        match outcome {
            // 2026-07-28, tools: over HTTP, a client drops tools with invalid header annotations
            Outcome::Complete(result)
                if *method == Method::ToolsList
                    && connection.context.abilities.header_params == HeaderParams::Mirrored =>
            {
                Outcome::Complete(without_invalid_header_params(result).written_by(&connection.context.origin))
            }
            outcome => outcome,
        }
    }

    fn failure(&self, connection: &ServerConnection, _: Option<&RequestId>, error: ErrorObject) -> Outcome {
        let error = error.written_in(connection.revision());
        if error.is_of_the_frame() { unreadable(connection, error) } else { Outcome::Failed(error) }
    }

    /// True if the server rejected the version of the request, and so did not act on it.
    fn is_of_another_version(&self, error: &ErrorObject) -> bool {
        error.revision().is_some() && error.code() == ErrorObject::UNSUPPORTED_VERSION
    }

    fn notified(
        &self,
        connection: &ServerConnection,
        notification: Notification,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        let params = &notification.params;
        let call = match notification.method {
            Method::LoggingMessage => {
                let level = || params.string("level").and_then(|name| Level::parse(&name));
                on.or_else(|| connection.calls.logger(level()))
            }
            // this ends a listen on a channel (2026-07-28, cancellation)
            Method::Cancelled => {
                let call = returned_number(params.object()?.get("requestId")?)?;
                let error = ErrorObject::retryable("the server ended the subscription");
                return Some((call, Event::Done(Outcome::Failed(error))));
            }
            _ => on.or_else(|| subscription(params)),
        };
        let is_of_listen = |call| connection.calls.read(call, |call| call.method == Method::Listen) == Some(true);
        if is_announcement(&notification.method) && !call.is_some_and(is_of_listen) {
            return announce(connection, notification, on);
        }
        if call.is_none() {
            metrics::counter!("lockkeeper_server_unattributed_total").increment(1);
        }
        call.map(|call| (call, Event::Notified(notification)))
    }

    /// Ignores the request. 2026-07-28, transports: a server sends requests only in results.
    fn asked(
        &self,
        connection: &ServerConnection,
        _: RequestId,
        method: Method,
        _: Bytes,
        _: Option<u64>,
    ) -> Option<(u64, Event)> {
        let backend = connection.context.backend.to_string();
        metrics::counter!("lockkeeper_server_requests_ignored_total", "server" => backend).increment(1);
        if !connection.sent_request.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %connection.context.backend, %method, "a server of 2026-07-28 sends requests; they are ignored");
        }
        None
    }

    fn offers(&self, connection: &ServerConnection, topic: &Topic) -> bool {
        match topic {
            Topic::Resource(_) => connection.server().is_some_and(|server| server.offers("resources", "subscribe")),
            Topic::Task(_) => connection.tasks().has_tasks(),
        }
    }

    /// Accepts every request. Methods that only sessions have end before a connection is chosen: in the frontend, in
    /// `crossing` or in `EraServer`. Requests about tasks need an owner (`OA-115`); some servers create tasks without
    /// declaring the extension, so the server decides about those.
    fn check(&self, _: &ServerConnection, _: &Method, _: &Payload) -> Result<(), ErrorObject> {
        Ok(())
    }
}
