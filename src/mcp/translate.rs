//! Translation of payloads between revisions: the steps between neighbours, folded.
//!
//! Each step is a revision and what it introduced, as facets. Its `down` lowers them for an older target, its `up` adds
//! what it requires. A payload is lowered by every step above its target, even above its own tag, since a peer may be
//! newer than the version that it negotiated; it is raised by every step between tag and target. So only features that
//! the target lacks are lowered, once, directly from the original.
//!
//! There are three kinds of vocabulary. *Control* (`resultType`, cache hints, the envelope, tasks) is consumed and
//! never forwarded. *Data* passes, even to revisions that do not define it, since their schemas are open; only
//! [`Profile::Strict`] removes it. *Closed unions* are converted, and a value that cannot be is [`Untranslatable`].

mod content;
mod elicitation;
mod entries;
mod envelope;
mod error;
mod facts;
mod header_params;
mod refusal;
mod sampling;
mod schema;
mod strict;
mod tasks;
mod translation;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

use bytes::Bytes;

use self::{
    refusal::{GROWTH_ALLOWANCE, MAX_GROWTH},
    translation::Translation,
};
use super::{LackingFeature, Outcome, Payload, Revision, json::draft::Draft};
pub use super::{payload::OutputSchema, profile::Profile};

pub use entries::{Checked, LeftOut, Omitted, ValidIn, checked};
pub use envelope::with_envelope;
pub use facts::{Facts, Kind, MessageCarrier};
pub use header_params::without_invalid_header_params;
pub use refusal::{Cause, Untranslatable, tool_error};
pub use schema::wrapped_tools;

/// A protocol version and the conversions that it makes necessary.
struct RevisionStep {
    introduced: Revision,
    /// Converts a payload for an older version.
    down: fn(&mut Draft<'_>, &Translation<'_>) -> Result<(), Untranslatable>,
    /// Adds what this version requires.
    up: fn(&mut Draft<'_>, &Translation<'_>) -> Result<(), Untranslatable>,
}

/// The steps, oldest first. A payload is lowered in this order too, so that the rule for an older target sees the
/// server's original value.
const STEPS: [RevisionStep; 4] = [
    RevisionStep { introduced: Revision::V2025_03_26, down: v2025_03_26::down, up: v2025_03_26::up },
    RevisionStep { introduced: Revision::V2025_06_18, down: v2025_06_18::down, up: v2025_06_18::up },
    RevisionStep { introduced: Revision::V2025_11_25, down: v2025_11_25::down, up: v2025_11_25::up },
    RevisionStep { introduced: Revision::V2026_07_28, down: v2026_07_28::down, up: v2026_07_28::up },
];

// === impl Payload ===

impl Payload {
    /// The same payload in the form of `target`. Between equal revisions there is no step, and the buffer stays the
    /// same. It also stays the same if no rule applies.
    ///
    /// # Errors
    ///
    /// If the target has no form for the payload.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Result<Self, Untranslatable> {
        if self.revision == target {
            return Ok(self);
        }
        let schema = if self.schema() == OutputSchema::Wrapped { OutputSchema::Wrapped } else { facts.schema };
        let server = self.server().or_else(|| std::str::from_utf8(facts.server?).ok());
        let translation = Translation { from: self.revision, to: target, schema, server, facts };
        translation.require_method().map_err(|refusal| refusal.of(self.origin()))?;
        let json = self.json().clone();
        let Ok(text) = std::str::from_utf8(&json) else { return Ok(self.in_revision(target, json)) };
        let absent = text.is_empty();
        if absent && matches!(facts.kind, Kind::Result | Kind::Answer) {
            return Ok(self.in_revision(target, Bytes::new()));
        }
        let mut draft = Draft::opened(if absent { "{}" } else { text });
        fold(&mut draft, &translation).map_err(|refusal| refusal.of(self.origin()))?;
        if !draft.is_changed() {
            return Ok(self.in_revision(target, json.clone()));
        }
        // the last member of the protocol was removed: `params` is optional where it can be empty
        if facts.kind != Kind::Result && facts.kind != Kind::Answer && draft.is_empty() {
            return Ok(self.in_revision(target, Bytes::new()));
        }
        match draft.text_within(text.len() * MAX_GROWTH + GROWTH_ALLOWANCE) {
            Some(text) => Ok(self.in_revision(target, text.into())),
            None => Err(translation.refuse(LackingFeature::Growth, Cause::Growth).of(self.origin())),
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// The same outcome for a client of `target`. Server requests stay as the server sent them: the client side
    /// translates each one separately.
    ///
    /// # Errors
    ///
    /// If the target has no form for the result.
    pub fn into_revision(self, target: Revision, facts: &Facts<'_>) -> Result<Self, Untranslatable> {
        match self {
            Self::Complete(result) => result.into_revision(target, facts).map(Self::Complete),
            Self::Failed(error) => Ok(error.into_revision(target, facts)),
            Self::InputRequired(questions) => Ok(Self::InputRequired(questions)),
        }
    }
}

/// Applies every step that is needed between the draft's revision and the target.
fn fold(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    for step in STEPS.iter().filter(|step| step.introduced > translation.to) {
        (step.down)(draft, translation)?;
    }
    let raises = |step: &&RevisionStep| step.introduced > translation.from && step.introduced <= translation.to;
    for step in STEPS.iter().filter(raises) {
        (step.up)(draft, translation)?;
    }
    envelope::settle_legacy_result(draft, translation);
    if translation.facts.profile == Profile::Strict {
        strict::prune(draft, translation);
    }
    Ok(())
}
