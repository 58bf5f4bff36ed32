//! The translation of one payload, as its steps see it.

use super::{
    facts::{Facts, Kind},
    refusal::{Cause, Untranslatable},
};
use crate::mcp::{LackingFeature, Method, Revision, json::draft::Draft, meta::META, payload::OutputSchema};

/// The translation of one payload from its revision to another.
#[derive(Clone, Copy)]
pub(super) struct Translation<'a> {
    pub(super) from: Revision,
    pub(super) to: Revision,
    /// From the payload if it is marked, else from the facts; the same for `server`.
    pub(super) schema: OutputSchema,
    pub(super) server: Option<&'a str>,
    pub(super) facts: &'a Facts<'a>,
}

// === impl Translation ===

impl Translation<'_> {
    /// True for a payload of this kind and method.
    pub(super) fn is(&self, kind: Kind, method: &Method) -> bool {
        self.facts.kind == kind && self.facts.method == method
    }

    /// Refuses a method that the target does not have, unless it is emulated.
    pub(super) fn require_method(&self) -> Result<(), Untranslatable> {
        let known = match self.facts.method {
            // the notification has two names, and its sender uses the target's name
            Method::TaskStatus | Method::Tasks => self.to >= Revision::V2025_11_25,
            Method::Progress if self.facts.kind == Kind::ClientNotification => self.to <= Revision::NEWEST_LEGACY,
            Method::Other(_) if self.facts.kind == Kind::ServerRequest => self.to <= Revision::NEWEST_LEGACY,
            method if *method == Method::Elicit || method.is_notification() => method.is_in(self.to),
            _ => true,
        };
        let method = || LackingFeature::Method(self.facts.method.as_str().to_owned());
        match self.facts.kind {
            _ if known => Ok(()),
            Kind::Notification | Kind::ClientNotification => Err(self.refuse(method(), Cause::Notification)),
            Kind::ServerRequest if matches!(self.facts.method, Method::Other(_)) => {
                Err(self.refuse(method(), Cause::VendorRequest))
            }
            Kind::ServerRequest => Err(self.refuse(LackingFeature::Elicitation, Cause::ServerRequest)),
            Kind::Request | Kind::Result | Kind::Answer => Ok(()),
        }
    }

    pub(super) const fn refuse(&self, feature: LackingFeature, cause: Cause) -> Untranslatable {
        Untranslatable { feature, from: self.from, to: self.to, origin: None, cause }
    }
}

/// Removes the members in `consumed` from `_meta`, and removes `_meta` itself if it is then empty.
pub(super) fn consume_meta(draft: &mut Draft<'_>, consumed: &[&str]) {
    if draft.edit(META).is_some_and(|meta| meta.remove_all(consumed) && meta.is_empty()) {
        draft.remove(META);
    }
}
