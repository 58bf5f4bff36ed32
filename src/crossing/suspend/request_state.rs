//! Request state: an opaque text that a client of 2026-07-28 carries from one request to the next (`translation` 4b.5,
//! section 5). It is `gw1.` and a ciphertext under a key of the store, so any process on the store can open it, and
//! nothing is stored. The state of a suspended call ends with the number of its replica, so that other replicas can
//! find it. It is bound to the caller, the endpoint, the request and a time: the parameters are read only if the seal
//! and all else match, so an invented state is cheap to refuse even with large arguments.

use std::{borrow::Cow, sync::Arc};

use crate::{
    mcp::{ErrorObject, Method, Payload, meta},
    model::{BackendId, Caller, ClientId, KeyId, LimitsConfig, ReplicaNumber, Target},
    support::{Clock, Digest, Live, Random, SealingKey, Timestamp},
};

const PREFIX: &str = "gw1.";
/// Maximum length of a text to seal or open, in bytes.
const MAX_LENGTH: usize = 64 * 1024;
/// Maximum size of parameters in bytes that a client may reformat when it repeats them. Larger ones are compared by
/// their text.
const MAX_CANONICAL: usize = 256 * 1024;

/// Seals and opens states.
pub(crate) struct Sealer {
    key: SealingKey,
    random: Arc<dyn Random>,
    clock: Arc<dyn Clock>,
    /// Include the lifetime of a sealed state.
    limits: Live<LimitsConfig>,
    /// This replica, which the states of its suspended calls name.
    replica: ReplicaNumber,
}

/// A state before sealing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// A suspended call that waits in a process.
    Suspended(CallId),
    /// The server's own state at the end of a call; nothing waits.
    OfServer(ServerState),
}

/// The server's own state at the end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerState {
    /// The JSON text of its `requestState`.
    pub(crate) text: String,
    /// The backend, if it is known.
    pub(crate) backend: Option<BackendId>,
}

/// Id of a suspended call: its process, and its id there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallId {
    /// Random for each process.
    pub(crate) process: [u8; 8],
    /// Random for each suspension.
    pub(crate) wait: [u8; 16],
}

/// The binding of a state: requests of one caller at one endpoint with the same content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateBinding<'a> {
    /// The caller, the endpoint and the method.
    sender: Digest,
    params: &'a Payload,
}

// === impl Sealer ===

impl Sealer {
    /// Creates a sealer of states that live for `server_request_timeout`.
    pub(crate) fn new(
        key: SealingKey,
        replica: ReplicaNumber,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
        limits: Live<LimitsConfig>,
    ) -> Self {
        Self { key, random, clock, limits, replica }
    }

    /// The sealed `state`; `None` if it would be longer than 64 KiB.
    pub(crate) fn seal(&self, state: &State, binding: &StateBinding<'_>) -> Option<String> {
        let until = self.clock.now() + self.limits.get().server_request_timeout;
        let plain = [binding.params_digest().as_bytes().as_slice(), &state.encode(until)].concat();
        let sealed = self.key.seal_text(&plain, binding.sender.as_bytes(), &*self.random).ok()?;
        let text = match state {
            State::Suspended(_) => self.replica.mark(format!("{PREFIX}{sealed}")),
            State::OfServer(_) => format!("{PREFIX}{sealed}"),
        };
        (text.len() <= MAX_LENGTH).then_some(text)
    }

    /// Opens a sealed state.
    ///
    /// # Errors
    ///
    /// [`invalid`], for any reason: the state is invented, changed, expired, or belongs to another caller or request.
    pub(crate) fn open(&self, text: &str, binding: &StateBinding<'_>) -> Result<State, ErrorObject> {
        self.opened(text, binding).ok_or_else(invalid)
    }

    fn opened(&self, text: &str, binding: &StateBinding<'_>) -> Option<State> {
        let text = text.strip_prefix(PREFIX).filter(|_| text.len() <= MAX_LENGTH)?;
        let (text, named) = ReplicaNumber::unmark(text);
        let plain = self.key.open_text(text, binding.sender.as_bytes()).ok()?;
        let (params, plain) = plain.split_at_checked(Digest::LENGTH)?;
        let (state, until) = State::decode(plain)?;
        let expected = match state {
            State::Suspended(_) => self.replica,
            State::OfServer(_) => ReplicaNumber::SOLE,
        };
        let is_live = self.clock.now() < until && named == expected;
        (is_live && binding.params_digest().as_bytes() == params).then_some(state)
    }
}

/// The error for an unusable state, with the fixed text of `translation` 4b.4.
pub(crate) fn invalid() -> ErrorObject {
    ErrorObject::invalid_params("Invalid or expired requestState")
}

// === impl State ===

impl State {
    /// The kind, the time in milliseconds, and the state. Kind 1 was a state without its backend.
    fn encode(&self, until: Timestamp) -> Vec<u8> {
        let until = until.as_millis().to_be_bytes();
        match self {
            Self::Suspended(name) => [&[0], until.as_slice(), &name.process, &name.wait].concat(),
            Self::OfServer(ServerState { text, backend }) => {
                let backend = backend.as_ref().map_or("", BackendId::as_str);
                // no backend id contains a zero byte
                [&[2], until.as_slice(), backend.as_bytes(), &[0], text.as_bytes()].concat()
            }
        }
    }

    fn decode(plain: &[u8]) -> Option<(Self, Timestamp)> {
        let (kind, plain) = plain.split_first()?;
        let (until, rest) = plain.split_first_chunk::<8>()?;
        let state = match kind {
            0 => {
                let (process, wait) = rest.split_first_chunk::<8>()?;
                Self::Suspended(CallId { process: *process, wait: wait.try_into().ok()? })
            }
            2 => {
                let (backend, text) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
                Self::OfServer(ServerState { text: text.to_owned(), backend: BackendId::parse(backend).ok() })
            }
            _ => return None,
        };
        Some((state, Timestamp::from_millis(i64::from_be_bytes(*until))))
    }
}

// === impl StateBinding ===

impl<'a> StateBinding<'a> {
    /// The binding to requests of this caller at this endpoint, with these parameters.
    pub(crate) fn new(caller: &Caller, target: &Target, method: &Method, params: &'a Payload) -> Self {
        let client = caller.client.as_ref().map(ClientId::as_str);
        // two keys of one user, used directly, are two clients
        let key = caller.key.as_ref().filter(|_| client.is_none()).map(KeyId::as_str);
        let backend = match target {
            Target::Merged => None,
            Target::Backend(backend) => Some(backend.as_str()),
        };
        let who = serde_json::json!([caller.user.as_str(), client, key, backend, method.as_str()]);
        Self { sender: Digest::sha256(who.to_string()), params }
    }

    /// The digest of the parameters, except the members that differ in each request of one call.
    fn params_digest(&self) -> Digest {
        let own = [meta::META, "inputResponses", "requestState"];
        let object = self.params.object().unwrap_or_default();
        let mut members: Vec<(&str, &str)> = object.iter().filter(|(name, _)| !own.contains(name)).collect();
        members.sort_unstable();
        let size: usize = members.iter().map(|(name, value)| name.len() + value.len()).sum();
        let parts = members.into_iter().flat_map(|(name, value)| {
            // a client may format the same value differently the next time; a value nested too deeply is used as it is
            let canonical = (size <= MAX_CANONICAL).then(|| serde_json::from_str::<serde_json::Value>(value).ok());
            let value = canonical.flatten().map_or(Cow::Borrowed(value), |value| Cow::Owned(value.to_string()));
            [Cow::Borrowed("\0"), Cow::Borrowed(name), Cow::Borrowed("\0"), value]
        });
        Digest::of_parts(parts)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        mcp::Revision,
        model::UserId,
        support::{ManualClock, SeededRandom},
    };

    fn sealer(key: u8, clock: &Arc<ManualClock>) -> Sealer {
        let random = Arc::new(SeededRandom::new(u64::from(key)));
        let (key, clock) = (SealingKey::new([key; 32]), Arc::clone(clock) as _);
        Sealer::new(key, ReplicaNumber::SOLE, random, clock, Live::default())
    }

    fn caller(user: &str, client: Option<&str>, key: &str) -> Caller {
        Caller {
            user: UserId::new(user),
            client: client.map(ClientId::new),
            key: Some(KeyId::new(key)),
            ..Caller::gateway()
        }
    }

    fn of_server(text: &str, backend: Option<&str>) -> State {
        let backend = backend.map(|backend| BackendId::parse(backend).unwrap());
        State::OfServer(ServerState { text: text.to_owned(), backend })
    }

    fn params(text: &str) -> Payload {
        Payload::new(Revision::V2026_07_28, text.to_owned().into())
    }

    fn binding<'a>(caller: &Caller, target: &Target, params: &'a Payload) -> StateBinding<'a> {
        StateBinding::new(caller, target, &Method::ToolsCall, params)
    }

    #[test]
    fn a_state_opens_with_the_same_key_for_the_same_request_before_its_expiry() {
        let clock = Arc::new(ManualClock::default());
        let (one, other) = (sealer(1, &clock), sealer(2, &clock));
        let call = params(r#"{"name":"t"}"#);
        let bound = binding(&caller("ann", None, "k"), &Target::Merged, &call);
        let suspended = State::Suspended(CallId { process: [3; 8], wait: [4; 16] });
        for state in [suspended, of_server(r#""\u0053T""#, Some("git")), of_server("1", None)] {
            let text = one.seal(&state, &bound).unwrap();
            assert_eq!(sealer(1, &clock).open(&text, &bound), Ok(state.clone()), "another process on the same store");
            assert_eq!(other.open(&text, &bound), Err(invalid()));
            for changed in [format!("{text}A"), text.replace("gw1.", "gw2."), "gw1.".to_owned(), "gw1.*".to_owned()] {
                assert_eq!(one.open(&changed, &bound), Err(invalid()));
            }
        }
        let text = one.seal(&of_server("1", None), &bound).unwrap();
        clock.advance(Duration::from_secs(599));
        assert!(one.open(&text, &bound).is_ok());
        clock.advance(Duration::from_secs(1));
        assert_eq!(one.open(&text, &bound), Err(invalid()));
    }

    #[test]
    fn oa_115_a_state_is_bound_to_caller_endpoint_and_request() {
        let sealer = sealer(1, &Arc::new(ManualClock::default()));
        let ann = caller("ann", None, "k");
        let git = Target::Backend(BackendId::parse("git").unwrap());
        let call = params(r#"{"name":"t","arguments":{"a":1,"b":2}}"#);
        let seal =
            |owner: &Caller| sealer.seal(&of_server("1", None), &binding(owner, &Target::Merged, &call)).unwrap();
        let opens = |text: &str, owner: &Caller, target: &Target, call: &Payload| {
            sealer.open(text, &binding(owner, target, call)).is_ok()
        };
        let state = seal(&ann);
        let same = params(
            r#"{ "arguments":{"b":2, "a":1},"_meta":{"x":1},"inputResponses":{},"requestState":"s","name":"t"}"#,
        );
        assert!(opens(&state, &ann, &Target::Merged, &same));
        assert!(!opens(&state, &ann, &git, &same));
        let other = params(r#"{"name":"t","arguments":{"a":1,"b":3}}"#);
        assert!(!opens(&state, &ann, &Target::Merged, &other));
        for (user, client, key) in [("bob", None, "k"), ("ann", Some("k"), "k"), ("ann", None, "l")] {
            let other = caller(user, client, key);
            assert!(!opens(&state, &other, &Target::Merged, &same), "{user} {client:?} {key}");
        }
        let app = |key| caller("ann", Some("app"), key);
        let state = seal(&app("k"));
        assert!(opens(&state, &app("l"), &Target::Merged, &same), "a client is the same with the user's next key");
    }

    #[test]
    fn large_parameters_are_repeated_as_they_were_written() {
        let sealer = sealer(1, &Arc::new(ManualClock::default()));
        let ann = caller("ann", None, "k");
        let text = |size: usize, space: &str, meta: &str| {
            let long = "x".repeat(size);
            params(&format!(r#"{{"arguments":{{"a":{space}"{long}"}},"_meta":{meta},"name":"t"}}"#))
        };
        for (size, may_differ) in [(MAX_CANONICAL - 100, true), (MAX_CANONICAL, false), (4 << 20, false)] {
            let call = text(size, "", "{}");
            let state = sealer.seal(&of_server("1", None), &binding(&ann, &Target::Merged, &call)).unwrap();
            let opens = |call: &Payload| sealer.open(&state, &binding(&ann, &Target::Merged, call)).is_ok();
            assert!(opens(&call) && opens(&text(size, "", r#"{"other":1}"#)), "{size}");
            assert_eq!(opens(&text(size, " ", "{}")), may_differ, "{size}");
            assert!(!opens(&text(size + 1, "", "{}")), "{size}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_not_sealed() {
        let sealer = sealer(1, &Arc::new(ManualClock::default()));
        let call = params("{}");
        let bound = binding(&caller("ann", None, "k"), &Target::Merged, &call);
        let seal = |length: usize| sealer.seal(&of_server(&"s".repeat(length), None), &bound);
        assert!(seal(48_000).is_some());
        assert_eq!(seal(50_000), None);
    }
}
