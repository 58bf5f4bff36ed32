//! Payloads from one revision to another: the steps between neighbours, folded. Knows nothing of peers, sessions and who
//! keeps state.
//!
//! Each step is a revision and what it introduced, as facets. Its `down` lowers them for a target below it, its `up` adds
//! what it requires. A payload is lowered by every step above its target, whatever its own tag says, since a peer may be
//! newer in practice than it negotiated, and raised by every step between tag and target. So only what the target lacks
//! is lowered, once, straight from how it was written.
//!
//! Three kinds of vocabulary are told apart. *Control* (`resultType`, cache hints, the envelope, tasks) is consumed and
//! never crosses. *Data* passes, even to revisions that do not define it, since their schemas are open; only the
//! [`Profile::Strict`] takes it out. *Closed unions* are converted, and what cannot be is [`Untranslatable`].

mod content;
mod elicitation;
mod entries;
mod envelope;
mod error;
mod header_params;
mod refusal;
mod sampling;
mod schema;
mod strict;
mod tasks;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

use bytes::Bytes;

use super::{ClientInfo, Method, Outcome, Payload, Revision, json::draft::Draft};

pub use entries::{Checked, LeftOut, ValidIn, checked};
pub use envelope::{mirrored_capabilities, with_envelope};
pub use header_params::without_invalid_header_params;
pub use refusal::{Cause, Untranslatable, tool_error};
pub use schema::wrapped_tools;

/// What a rule needs beside the payload.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What the payload is.
    pub kind: Kind,
    /// The method that it belongs to: its own, or that of the request or question which it answers.
    pub method: &'a Method,
    /// What becomes of members that the target does not define.
    pub profile: Profile,
    /// How the output schema of the called tool was shown to the client, where the payload does not say itself that it was
    /// wrapped ([`Payload::of_wrapped_output`]).
    pub schema: OutputSchema,
    /// What carries the messages of the backend.
    pub transport: Transport,
    /// The URI that the answered `resources/read` asked for.
    pub uri: Option<&'a str>,
    /// The client: its capabilities bound what it can be asked, and are declared with each request of 2026-07-28. A request
    /// that is raised there without it gets no envelope.
    pub client: Option<&'a ClientInfo>,
    /// The `Implementation` that results toward 2026-07-28 are in the name of, where the payload does not say itself which
    /// server wrote it ([`Payload::of_server`]).
    pub server: Option<&'a Bytes>,
    /// The question as its server asked it, where the payload answers one.
    pub question: Option<&'a Payload>,
    /// The id to give to a URL elicitation toward 2025-11-25; absent, one is derived from the question.
    pub elicitation_id: Option<&'a str>,
}

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The parameters of what a client asks a server.
    Request,
    /// What a server answered.
    Result,
    /// The parameters of what a server tells its client.
    Notification,
    /// The parameters of what a client tells a server.
    ClientNotification,
    /// The parameters of what a server asks its client.
    Question,
    /// What a client answered to it.
    Answer,
}

/// What becomes of members that the target does not define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// They pass: no schema of the protocol closes an object.
    #[default]
    Faithful,
    /// They are removed, for clients that refuse what they do not know.
    Strict,
}

/// How a tool's output schema was shown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputSchema {
    /// As the server wrote it, or not at all.
    #[default]
    AsWritten,
    /// As the member `result` of an object, since its root is no object: see [`wrapped_tools`].
    Wrapped,
}

/// What carries the messages of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// A channel: stdio, WebSocket.
    #[default]
    Channel,
}

/// One payload on its way.
#[derive(Clone, Copy)]
struct Crossing<'a> {
    from: Revision,
    to: Revision,
    /// Of the payload, or else of the facts.
    schema: OutputSchema,
    /// Likewise.
    server: Option<&'a str>,
    facts: &'a Facts<'a>,
}

/// A revision and what it introduced.
struct Step {
    introduced: Revision,
    /// Lowers its facets for a target below it.
    down: fn(&mut Draft<'_>, &Crossing<'_>) -> Result<(), Untranslatable>,
    /// Adds what it requires.
    up: fn(&mut Draft<'_>, &Crossing<'_>) -> Result<(), Untranslatable>,
}

/// The steps, oldest first. A payload is lowered in this order too, so that the rule for an older target sees a value as
/// the server wrote it.
const STEPS: [Step; 4] = [
    Step { introduced: Revision::V2025_03_26, down: v2025_03_26::down, up: v2025_03_26::up },
    Step { introduced: Revision::V2025_06_18, down: v2025_06_18::down, up: v2025_06_18::up },
    Step { introduced: Revision::V2025_11_25, down: v2025_11_25::down, up: v2025_11_25::up },
    Step { introduced: Revision::V2026_07_28, down: v2026_07_28::down, up: v2026_07_28::up },
];

// === impl Payload ===

impl Payload {
    /// The same payload as `target` writes it. Equal revisions take no step and give the same buffer; so does a payload
    /// that no rule touches.
    ///
    /// # Errors
    ///
    /// Where the target has no form for it.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Result<Self, Untranslatable> {
        if self.revision == target {
            return Ok(self);
        }
        let schema = if self.schema() == OutputSchema::Wrapped { OutputSchema::Wrapped } else { facts.schema };
        let server = self.server().or_else(|| std::str::from_utf8(facts.server?).ok());
        let crossing = Crossing { from: self.revision, to: target, schema, server, facts };
        crossing.require_method().map_err(|refusal| refusal.of(self.origin()))?;
        let json = self.json().clone();
        let Ok(text) = std::str::from_utf8(&json) else { return Ok(self.in_revision(target, json)) };
        let absent = text.is_empty();
        if absent && matches!(facts.kind, Kind::Result | Kind::Answer) {
            return Ok(self.in_revision(target, Bytes::new()));
        }
        let mut draft = Draft::of(if absent { "{}" } else { text });
        crossing.fold(&mut draft).map_err(|refusal| refusal.of(self.origin()))?;
        let emptied = facts.kind != Kind::Result && facts.kind != Kind::Answer && draft.is_empty();
        Ok(match draft.is_changed() {
            _ if absent && draft.is_empty() => self.in_revision(target, Bytes::new()),
            // the last member was of the protocol's own: `params` is optional wherever it can be empty
            true if emptied => self.in_revision(target, Bytes::new()),
            true => self.in_revision(target, draft.text().into()),
            false => self.in_revision(target, json.clone()),
        })
    }
}

// === impl Outcome ===

impl Outcome {
    /// The same end of a call as a client of `target` gets it. Questions stay as they were asked: whoever serves the
    /// client's manner takes them one by one.
    ///
    /// # Errors
    ///
    /// Where the target has no form for the result.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Result<Self, Untranslatable> {
        match self {
            Self::Complete(result) => result.into_revision(target, facts).map(Self::Complete),
            Self::Failed(error) => Ok(error.into_revision(target, facts)),
            Self::InputRequired(questions) => Ok(Self::InputRequired(questions)),
        }
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// What is known of a payload of this kind and method, and no more.
    pub fn new(kind: Kind, method: &'a Method) -> Self {
        Self {
            kind,
            method,
            profile: Profile::default(),
            schema: OutputSchema::default(),
            transport: Transport::default(),
            uri: None,
            client: None,
            server: None,
            question: None,
            elicitation_id: None,
        }
    }

    /// Whether the client declares the part `part` of the capability `name`.
    fn client_has(&self, name: &str, part: &str) -> bool {
        let Some(client) = self.client else { return false };
        let text = String::from_utf8_lossy(client.capabilities.json());
        Draft::of(&text).get(name).is_some_and(|capability| capability.get(part).is_some())
    }
}

// === impl Crossing ===

impl Crossing<'_> {
    fn fold(&self, draft: &mut Draft<'_>) -> Result<(), Untranslatable> {
        for step in STEPS.iter().filter(|step| step.introduced > self.to) {
            (step.down)(draft, self)?;
        }
        for step in STEPS.iter().filter(|step| step.introduced > self.from && step.introduced <= self.to) {
            (step.up)(draft, self)?;
        }
        envelope::settle_legacy_result(draft, self);
        if self.facts.profile == Profile::Strict {
            strict::prune(draft, self);
        }
        Ok(())
    }

    /// Whether it is a payload of this kind that belongs to this method.
    fn is(&self, kind: Kind, method: &Method) -> bool {
        self.facts.kind == kind && self.facts.method == method
    }

    /// Refuses methods that the target has not, and that nobody emulates by their payload alone.
    fn require_method(&self) -> Result<(), Untranslatable> {
        let known = match self.facts.method {
            Method::Initialized | Method::RootsListChanged => self.to <= Revision::NEWEST_LEGACY,
            Method::ElicitationComplete => self.to == Revision::V2025_11_25,
            // the two shapes of one notification: whoever sends it takes the method's name of the target
            Method::TaskStatus | Method::Tasks => self.to >= Revision::V2025_11_25,
            Method::SubscriptionsAcknowledged => self.to == Revision::V2026_07_28,
            Method::Progress if self.facts.kind == Kind::ClientNotification => self.to <= Revision::NEWEST_LEGACY,
            Method::Elicit => self.to >= Revision::V2025_06_18,
            Method::Other(_) if self.facts.kind == Kind::Question => self.to <= Revision::NEWEST_LEGACY,
            _ => true,
        };
        match self.facts.kind {
            _ if known => Ok(()),
            Kind::Notification | Kind::ClientNotification => {
                Err(self.refuse(self.facts.method.as_str().to_owned(), Cause::Notification))
            }
            Kind::Question if matches!(self.facts.method, Method::Other(_)) => {
                Err(self.refuse(self.facts.method.as_str().to_owned(), Cause::VendorRequest))
            }
            Kind::Question => {
                Err(self.refuse("elicitation", Cause::Question { capability: "elicitation", part: None }))
            }
            Kind::Request | Kind::Result | Kind::Answer => Ok(()),
        }
    }

    fn refuse(&self, feature: impl Into<std::borrow::Cow<'static, str>>, cause: Cause) -> Untranslatable {
        Untranslatable { feature: feature.into(), from: self.from, to: self.to, backend: None, cause }
    }
}

/// Takes the members that `consumed` names out of `_meta`, and `_meta` itself where they were all that it held.
fn consume_meta(draft: &mut Draft<'_>, consumed: &[&str]) {
    let mut emptied = false;
    for meta in draft.each(super::meta::META) {
        let mut removed = false;
        for key in consumed {
            removed |= meta.remove(key);
        }
        emptied |= removed && meta.is_empty();
    }
    if emptied {
        draft.remove(super::meta::META);
    }
}
