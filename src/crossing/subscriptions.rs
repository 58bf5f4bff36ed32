//! `resources/subscribe` of a session, which is a listen at its server (`translation` 3.4, SUB). Holds nothing: the
//! listen lasts as long as the reply to the request.

use crate::mcp::{Call, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision, Server, listen};

/// A server that takes a session's subscriptions as listens.
#[derive(Clone)]
pub(crate) struct SubscriptionsOverListens<S>(pub(crate) S);

impl<S: Server + Clone + 'static> Server for SubscriptionsOverListens<S> {
    fn call(&self, call: Call) -> Reply {
        match &call.method {
            Method::ResourcesSubscribe => self.subscribe(call),
            _ => self.0.call(call),
        }
    }
}

impl<S: Server> SubscriptionsOverListens<S> {
    /// Answers once the server has acknowledged the resource (`translation` 4d). Dropping the reply after that
    /// unsubscribes.
    fn subscribe(&self, call: Call) -> Reply {
        let Some(uri) = call.params.string("uri") else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `uri` is missing"));
        };
        let params = listen::for_resources(&[&uri]);
        let mut listen = self.0.call(Call { method: Method::Listen, params, ..call });
        Reply::new(async_stream::stream! {
            let outcome = loop {
                match listen.next_event().await {
                    Some(Event::Notified(told)) if told.method == Method::SubscriptionsAcknowledged => {
                        break if listen::resources(&told.params).contains(&uri) { granted() } else { left_out() };
                    }
                    Some(Event::Notified(_) | Event::Asked(_)) => {}
                    Some(Event::Done(Outcome::Failed(error))) => break Outcome::Failed(error),
                    Some(Event::Done(_)) | None => break left_out(),
                }
            };
            yield Event::Done(outcome);
            // the holder of the reply keeps it open until here
            drop(listen);
        })
    }
}

fn granted() -> Outcome {
    Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY))
}

fn left_out() -> Outcome {
    Outcome::Failed(ErrorObject::invalid_params("The server does not tell when this resource changes"))
}
