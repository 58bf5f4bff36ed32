//! Calls at a server of 2026-07-28: each stands alone, on the connection of its sharer. What clients with sessions set for
//! longer than a call is kept here for them: the level goes with each of their calls, subscriptions into the listen.

use std::{pin::pin, sync::Arc};

use futures_util::StreamExt as _;

use super::{
    attempts::{Attempts, Next},
    error::StartError,
    key::Key,
    life::Life,
    missed::Missed,
    modern::{Peer, call::Asked, discover::Told},
    pool::Lease,
    served::Backend,
    wants::Topic,
};
use crate::mcp::{Call, Context, Era, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, Revision};

impl Backend {
    /// Serves one call.
    pub(super) fn serve_alone(self: Arc<Self>, call: Call) -> Reply {
        match &call.method {
            Method::SetLevel => Reply::later(async move { self.keep_level(&call) }),
            Method::ResourcesSubscribe => Reply::later(self.listen_to(call)),
            Method::ResourcesUnsubscribe => Reply::later(async move { self.leave(&call) }),
            Method::Ping => Reply::complete(Payload::empty(Revision::NEWEST_LEGACY)),
            // what only sessions have is dropped at a server that has none (design rule 13)
            method if method.is_notification() => {
                metrics::counter!("lockkeeper_backend_notifications_dropped_total").increment(1);
                Reply::complete(Payload::absent(call.params.revision))
            }
            _ => self.ask(call),
        }
    }

    pub(super) fn ask(self: Arc<Self>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let Call { method, params, context } = call;
            let key = Key::of_modern(&self.spec, &context);
            let mut attempts = Attempts::of(&self, &method);
            loop {
                let (_lease, peer) = match self.peer(&key, &context).await {
                    Ok(found) => found,
                    Err(missed) => {
                        let call = Call { method: method.clone(), params: params.clone(), context: context.clone() };
                        for await event in Arc::clone(&self).missed(missed, call) {
                            yield event;
                        }
                        return;
                    }
                };
                if method == Method::Discover && peer.introduction().is_some_and(|introduction| !introduction.is_fresh()) {
                    self.introduce(&peer).await;
                }
                if let (Method::Discover, Some(introduction)) = (&method, peer.introduction()) {
                    yield Event::Done(Outcome::Complete(introduction.discover(&self.spec.id)));
                    return;
                }
                let asked = self.asked(&key, (&method, &params), &context);
                let mut events = pin!(peer.call(asked, self.spec.call_timeout));
                while let Some(event) = events.next().await {
                    if let Some(event) = attempts.take(event) {
                        yield event;
                    }
                }
                if attempts.is_lost() && !peer.is_over() {
                    self.introduce(&peer).await;
                }
                match attempts.next() {
                    Next::Again => {}
                    Next::Over => return,
                    Next::GivenUp(event) => {
                        yield event;
                        return;
                    }
                }
            }
        })
    }

    /// Asks a server that is reached over HTTP again what it says of itself: it may be replaced unseen. What it said holds
    /// where it does not answer; where it is of another era now, that is found out anew.
    async fn introduce(&self, peer: &Arc<Peer>) {
        if self.spec.is_channel() {
            return;
        }
        match peer.discover(self.spec.start_timeout).await {
            Told::Modern(introduction) => {
                self.tasks.met(introduction.tasks());
                peer.introduced(introduction);
            }
            Told::Legacy(reason) => {
                self.era.doubt();
                peer.end(&format!("the server no longer speaks 2026-07-28: {reason}"));
            }
            Told::Unusable(error @ StartError::Incompatible { .. }) => peer.end(&error.to_string()),
            Told::Ended(_) | Told::Unusable(_) | Told::Nothing(_) => {}
        }
    }

    fn asked(&self, key: &Key, (method, params): (&Method, &Payload), context: &Context) -> Asked {
        Asked {
            method: method.clone(),
            params: params.clone(),
            client: Arc::clone(&context.client),
            level: self.wants.level_of(key, &context.requester),
            mirror: context.mirror.clone(),
            profile: context.profile,
            farewell: context.farewell.clone(),
        }
    }

    /// The connection of `key`, made where there is none. Waits up to `start_timeout`.
    pub(super) async fn peer(self: &Arc<Self>, key: &Key, context: &Context) -> Result<(Lease, Arc<Peer>), Missed> {
        match self.life(key, context, Era::Modern).await? {
            (lease, Life::Modern(peer)) => Ok((lease, peer)),
            (_, Life::Legacy(_)) => Err(Missed::Turned(Era::Legacy)),
        }
    }

    /// `logging/setLevel`: from now on it goes with each call of this client (`translation` 3.4, LOG).
    fn keep_level(&self, call: &Call) -> Reply {
        let Some(level) = call.params.string("level").as_deref().and_then(Level::parse) else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `level` names no level"));
        };
        let key = Key::of_modern(&self.spec, &call.context);
        self.wants.set_level(&key, call.context.requester.clone(), level);
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
    }

    /// `resources/subscribe`: answered when the server has acknowledged that it tells of the resource (`translation` 4d).
    async fn listen_to(self: Arc<Self>, call: Call) -> Reply {
        let (key, holder) = (Key::of_modern(&self.spec, &call.context), call.context.requester.clone());
        let Some(uri) = call.params.string("uri") else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `uri` is missing"));
        };
        let (_lease, peer) = match self.peer(&key, &call.context).await {
            Ok(found) => found,
            Err(missed) => return Reply::failed(self.missed_error(missed)),
        };
        if peer.introduction().is_some_and(|introduction| !introduction.offers("resources", Some("subscribe"))) {
            return Reply::failed(ErrorObject::method_not_found(Method::ResourcesSubscribe.as_str()));
        }
        if !self.wants.has_room(&key) {
            return Reply::failed(ErrorObject::invalid_params("too many resources are subscribed to at this backend"));
        }
        let topic = Topic::Resource(uri);
        self.wants.subscribed(&key, holder.clone(), topic.clone());
        let error = match peer.honoured(vec![topic.clone()]).await {
            Some(honoured) if !honoured.is_empty() => {
                return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
            }
            Some(_) => {
                let text = format!("Backend `{}` does not tell when this resource changes", self.spec.id);
                ErrorObject::invalid_params(&text)
            }
            None => self.unavailable("it does not say in time whether it tells when this resource changes; try again"),
        };
        self.wants.unsubscribed(&key, &holder, &topic);
        peer.want_anew();
        Reply::failed(error)
    }

    /// `resources/unsubscribe`.
    fn leave(&self, call: &Call) -> Reply {
        let key = Key::of_modern(&self.spec, &call.context);
        if let Some(uri) = call.params.string("uri") {
            self.wants.unsubscribed(&key, &call.context.requester, &Topic::Resource(uri));
            if let Some(peer) = self.pool.peer(&key) {
                peer.want_anew();
            }
        }
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
    }
}
