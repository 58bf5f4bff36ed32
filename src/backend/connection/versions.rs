//! Protocol versions that a server names, in a result or in an error. Knows nothing of how it was asked.

use crate::{
    backend::error::StartError,
    mcp::{Era, ErrorObject, Payload, Revision, json::Object},
};

/// The versions that a `DiscoverResult` names, as far as they matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Versions {
    /// One in which requests stand alone is common.
    Modern(Revision),
    /// None such, but one with a handshake.
    Legacy,
    /// None that the gateway speaks: those that the server named.
    Foreign(Vec<String>),
}

impl Versions {
    /// What these names say.
    pub(super) fn among(names: &[String]) -> Self {
        let common = |era| {
            let ours = Revision::ALL.into_iter().rev().filter(move |revision| revision.era() == era);
            ours.into_iter().find(|revision| names.iter().any(|name| name == revision.as_str()))
        };
        match (common(Era::Modern), common(Era::Legacy)) {
            (Some(revision), _) => Self::Modern(revision),
            (None, Some(_)) => Self::Legacy,
            (None, None) => Self::Foreign(names.to_vec()),
        }
    }

    /// The versions in `result`; `None` if it is no `DiscoverResult`.
    pub(super) fn of(result: &Payload) -> Option<Self> {
        let object = result.object()?;
        let names: Vec<String> = serde_json::from_str(object.get("supportedVersions")?).ok()?;
        Some(Self::among(&names))
    }
}

/// The versions in `error.data.supported`; `None` where it names none.
pub(super) fn supported(error: &ErrorObject) -> Option<Vec<String>> {
    let object = Object::parse(error.json())?;
    let data = Object::parse(object.get("data")?.as_bytes())?;
    let names: Vec<String> = serde_json::from_str(data.get("supported")?).ok()?;
    (!names.is_empty()).then_some(names)
}

/// Why a server cannot be used that offers these versions alone.
pub(super) fn incompatible(supported: Vec<String>) -> StartError {
    let versions = supported.join(", ");
    let reason =
        format!("the server speaks protocol {versions} only, which this gateway does not know; update one of the two");
    StartError::Incompatible { reason, supported }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_common_version_is_taken() {
        let of = |names: &[&str]| {
            let result = json!({ "supportedVersions": names });
            Versions::of(&Payload::of(Revision::V2026_07_28, &result))
        };
        let modern = of(&["2025-11-25", "2026-07-28", "2099-01-01"]);
        assert_eq!(modern, Some(Versions::Modern(Revision::V2026_07_28)));
        assert_eq!(of(&["2099-01-01", "2025-06-18"]), Some(Versions::Legacy));
        assert_eq!(of(&["2099-01-01"]), Some(Versions::Foreign(vec!["2099-01-01".to_owned()])));
        assert_eq!(Versions::of(&Payload::empty(Revision::V2026_07_28)), None);
    }
}
