//! `subscriptions/listen` (2026-07-28): sends the chosen notifications on one stream. The first message is the
//! acknowledgement, and each message has the id of the listen.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    frontend::request_limits::RequestPermit,
    mcp::{
        Call, ClientInfo, Context, Event, Message, Method, Notification, Payload, RequestId, Server,
        client_translator::ClientTranslator, json::draft::Draft, listen::Filter, meta, observer::RequesterObserver,
    },
    model::Requester,
};

/// Maximum wait for a server's acknowledgement.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_mins(1);

pub(super) struct Listen {
    /// The id of the request, which each notification repeats.
    pub(super) id: RequestId,
    /// The client, and the caller.
    pub(super) context: Context,
    /// Translates messages to the client's version.
    pub(super) translator: ClientTranslator,
    /// The server to listen to.
    pub(super) server: Arc<dyn Server>,
    /// Notified of the end of the listen, so that subscriptions end.
    pub(super) observer: RequesterObserver,
}

/// Reports the end of a listen to the servers, for any reason.
struct EndReport(RequesterObserver, Requester);

impl Drop for EndReport {
    fn drop(&mut self) {
        self.0.ended(&self.1);
    }
}

// === impl Listen ===

impl Listen {
    /// The messages: the acknowledgement, the chosen notifications, and the result if the gateway ends the listen.
    pub(super) fn messages(
        self,
        chosen: Filter,
        drained: CancellationToken,
        permit: RequestPermit,
    ) -> impl Stream<Item = Message> + Send + 'static {
        async_stream::stream! {
            let _permit = permit;
            let end = EndReport(self.observer.clone(), self.context.requester.clone());
            let call = Call { method: Method::Listen, params: chosen.params(), context: self.context.clone() };
            let mut reply = self.server.call(call);
            // the first notification is the acknowledgement; a server that sends none sends no notifications
            let first = tokio::select! {
                biased;
                () = drained.cancelled() => None,
                first = timeout(ACKNOWLEDGE_TIMEOUT, reply.next_event()) => first.ok().flatten(),
            };
            let honoured = match &first {
                Some(Event::Notified(told)) if told.method == Method::SubscriptionsAcknowledged => {
                    Filter::of(&told.params).within(&chosen)
                }
                _ => Filter::default(),
            };
            yield self.tagged(Method::SubscriptionsAcknowledged, &honoured.params_for_client());
            loop {
                let event = tokio::select! {
                    biased;
                    () = drained.cancelled() => break,
                    event = reply.next_event() => event,
                };
                match event {
                    Some(Event::Notified(told)) => {
                        if let Some(message) = self.shown(told, &honoured) {
                            yield message;
                        }
                    }
                    // a listen has no server requests; dropping one refuses it
                    Some(Event::Asked(_)) => {}
                    Some(Event::Done(_)) | None => break,
                }
            }
            drop(end);
            let result = self.ended();
            yield Message::result(self.id, result);
        }
    }

    /// The message for a chosen notification, in the client's version.
    fn shown(&self, told: Notification, honoured: &Filter) -> Option<Message> {
        let Notification { method, params } = self.translator.notification(told)?;
        honoured.tells(&method, &params).then(|| self.tagged(method, &params))
    }

    /// The result of the listen, for when the gateway ends it.
    fn ended(&self) -> Bytes {
        let (id, gateway) = (String::from_utf8_lossy(self.id.json()), ClientInfo::gateway_implementation());
        let (subscription, server) = (meta::SUBSCRIPTION_ID, meta::SERVER_INFO);
        let gateway = String::from_utf8_lossy(&gateway);
        format!(r#"{{"resultType":"complete","_meta":{{"{subscription}":{id},"{server}":{gateway}}}}}"#).into()
    }

    /// A notification with the id of its listen.
    fn tagged(&self, method: Method, params: &Payload) -> Message {
        let text =
            if params.is_absent() { "{}".to_owned() } else { String::from_utf8_lossy(params.json()).into_owned() };
        let mut draft = Draft::of(&text);
        if let Some(meta) = draft.edit_object(meta::META) {
            meta.set(meta::SUBSCRIPTION_ID, String::from_utf8_lossy(self.id.json()));
        }
        Message::Notification { method, params: draft.text().into() }
    }
}
