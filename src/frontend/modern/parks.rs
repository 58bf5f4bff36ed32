//! Calls that wait for their client between two requests (`translation` 4b): each is driven by a task of its own until the
//! client comes back with the state that it was given, or its time is over. Knows nothing of HTTP.
//!
//! The state is sealed under a key of this process, as the call that it names lives in this process alone: `gw1.` and an
//! encrypted name, bound to the request. A state that was used, changed, or is another caller's is the same error as one
//! that never was.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload as Sealed},
};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::task::TaskTracker;

use super::held::{Held, Next};
use crate::{
    frontend::{sessions::Deps, settings::Settings},
    mcp::{ErrorObject, Event, Method, Payload, meta},
    model::Caller,
    support::{Digest, Random},
};

const PREFIX: &str = "gw1.";
const NONCE: usize = 24;
const NAME: usize = 16;
/// The longest state that is looked at, in bytes.
const LONGEST: usize = 256;
/// How many calls wait in all, and of one user.
const MOST: (usize, usize) = (4_096, 64);

/// The calls that wait.
pub(super) struct Parks {
    waiting: Mutex<HashMap<[u8; NAME], Parked>>,
    cipher: XChaCha20Poly1305,
    random: Arc<dyn Random>,
    /// How long each waits for its client.
    patience: Duration,
}

/// One call that waits, and how to take it.
struct Parked {
    owner: Arc<Caller>,
    take: oneshot::Sender<oneshot::Sender<Held>>,
}

impl Parks {
    /// None yet.
    pub(super) fn new(deps: &Deps, settings: &Settings) -> Arc<Self> {
        let cipher = XChaCha20Poly1305::new(&deps.random.bytes::<32>().into());
        let random = Arc::clone(&deps.random);
        Arc::new(Self { waiting: Mutex::default(), cipher, random, patience: settings.question_timeout })
    }

    /// Lets a call wait; gives the state with which the client takes it again, and the result that says so.
    ///
    /// # Errors
    ///
    /// The call itself, where too many wait.
    pub(super) fn keep(
        self: &Arc<Self>,
        held: Held,
        (owner, digest): (&Arc<Caller>, &Digest),
        tracker: &TaskTracker,
    ) -> Result<(String, Bytes), Box<Held>> {
        let mut waiting = self.waiting.lock();
        let own = waiting.values().filter(|parked| parked.owner.user == owner.user).count();
        if waiting.len() >= MOST.0 || own >= MOST.1 {
            return Err(Box::new(held));
        }
        let name = self.random.bytes::<NAME>();
        let (take, taken) = oneshot::channel();
        waiting.insert(name, Parked { owner: Arc::clone(owner), take });
        drop(waiting);
        let state = self.seal(&name, digest);
        let result = held.input_required(&state);
        let parks = Arc::clone(self);
        tracker.spawn(async move {
            wait(held, taken, Instant::now() + parks.patience).await;
            parks.waiting.lock().remove(&name);
        });
        Ok((state, result))
    }

    /// Takes the call that waits under `state`.
    ///
    /// # Errors
    ///
    /// `-32602` with the frozen text of `translation` 4b.4, whatever is wrong with it.
    pub(super) async fn take(&self, state: &str, owner: &Caller, digest: &Digest) -> Result<Held, ErrorObject> {
        let name = self.open(state, digest).ok_or_else(Self::invalid)?;
        let parked = {
            let mut waiting = self.waiting.lock();
            let known = waiting.get(&name).is_some_and(|parked| parked.owner.owns_the_same_as(owner));
            if known { waiting.remove(&name) } else { None }
        };
        let parked = parked.ok_or_else(Self::invalid)?;
        let (give, given) = oneshot::channel();
        parked.take.send(give).map_err(|_| Self::invalid())?;
        given.await.map_err(|_| Self::invalid())
    }

    /// The error for a state that nothing waits under.
    pub(super) fn invalid() -> ErrorObject {
        ErrorObject::invalid_params("Invalid or expired requestState")
    }

    fn seal(&self, name: &[u8; NAME], digest: &Digest) -> String {
        let nonce = self.random.bytes::<NONCE>();
        let sealed = Sealed { msg: name, aad: digest.as_bytes() };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), sealed).unwrap_or_default();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    fn open(&self, state: &str, digest: &Digest) -> Option<[u8; NAME]> {
        let text = state.strip_prefix(PREFIX).filter(|text| text.len() <= LONGEST)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let sealed = Sealed { msg: sealed, aad: digest.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), sealed).ok()?.try_into().ok()
    }
}

/// Drives a call until it is taken or `until`.
async fn wait(mut held: Held, mut asked: oneshot::Receiver<oneshot::Sender<Held>>, until: Instant) {
    let mut over = false;
    loop {
        tokio::select! {
            biased;
            taker = &mut asked => {
                if let Ok(taker) = taker {
                    // a client that left meanwhile cancels what it came for
                    drop(taker.send(held));
                }
                return;
            }
            () = sleep_until(until) => {
                metrics::counter!("lockkeeper_frontend_questions_expired_total").increment(1);
                return if over { drop(held) } else { held.abandon().await };
            }
            next = held.live(), if !over => {
                if let Next::Event(event) = next {
                    over = matches!(event, Event::Done(_));
                    held.keep(event);
                }
            }
        }
    }
}

/// What the requests of one call have in common: the method and the parameters, without what each brings of its own.
pub(super) fn digest(method: &Method, params: &Payload) -> Digest {
    let own = [meta::META, "inputResponses", "requestState"];
    let mut text = method.as_str().to_owned();
    let object = params.object().unwrap_or_default();
    let mut members: Vec<(&str, &str)> = object.iter().filter(|(name, _)| !own.contains(name)).collect();
    members.sort_unstable();
    for (name, value) in members {
        // a client may write the same value otherwise the next time; what is too deep for that is taken as it is
        let value = serde_json::from_str::<serde_json::Value>(value)
            .map_or_else(|_| value.to_owned(), |value| value.to_string());
        text.extend(["\0", name, "\0", &value]);
    }
    Digest::sha256(text)
}
