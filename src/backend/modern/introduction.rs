//! What a server of 2026-07-28 says of itself, its `DiscoverResult`. Knows nothing of how it was asked.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    crossing::tasks::ServerTasks,
    mcp::{
        Era, Payload, Revision,
        json::{Object, draft::Draft},
        meta,
    },
    model::BackendId,
    support::printable_name,
};

/// How long what a server said is taken for true at least and at most, whatever hint it gives (2026-07-28, caching).
const FRESH: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// What a server of 2026-07-28 said of itself.
#[derive(Debug, Clone)]
pub(crate) struct Introduction {
    /// The version that both speak.
    pub(crate) revision: Revision,
    result: Payload,
    at: Instant,
}

/// The versions that a `DiscoverResult` names, as far as they matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Versions {
    /// One in which requests stand alone is common.
    Modern(Revision),
    /// None such, but one with a handshake.
    Legacy,
    /// None that the gateway speaks: those that the server named.
    Foreign(Vec<String>),
}

impl Versions {
    /// What these names say.
    pub(crate) fn among(names: &[String]) -> Self {
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
}

impl Introduction {
    /// The versions in `result`; `None` where it is no `DiscoverResult`.
    pub(crate) fn versions(result: &Payload) -> Option<Versions> {
        let object = result.object()?;
        let names: Vec<String> = serde_json::from_str(object.get("supportedVersions")?).ok()?;
        Some(Versions::among(&names))
    }

    /// What `result`, a `DiscoverResult`, says at this moment.
    pub(crate) fn new(revision: Revision, result: Payload) -> Self {
        Self { revision, result, at: Instant::now() }
    }

    /// Whether it is young enough to be taken for true: a server over HTTP may be replaced unseen.
    pub(crate) fn is_fresh(&self) -> bool {
        let hint = self.result.object().and_then(|object| object.get("ttlMs")?.parse().ok());
        let hint = hint.map_or(FRESH.0, Duration::from_millis);
        self.at.elapsed() < hint.clamp(FRESH.0, FRESH.1)
    }

    /// What the server calls itself, `name version`, for people.
    pub(crate) fn server(&self) -> Option<String> {
        let object = self.result.object()?;
        let meta = Object::parse(object.get(meta::META)?.as_bytes())?;
        let info = Object::parse(meta.get(meta::SERVER_INFO)?.as_bytes())?;
        let text = format!("{} {}", info.string("name")?, info.string("version").unwrap_or_default());
        Some(printable_name(&text, 100))
    }

    /// The text of the server's `capabilities`.
    pub(crate) fn capabilities(&self) -> Object<'_> {
        let object = self.result.object().unwrap_or_default();
        object.get("capabilities").and_then(|text| Object::parse(text.as_bytes())).unwrap_or_default()
    }

    /// Whether the capability `name` is declared, or its `part` is true.
    pub(crate) fn offers(&self, name: &str, part: Option<&str>) -> bool {
        let capabilities = self.capabilities();
        let Some(text) = capabilities.get(name) else { return false };
        part.is_none_or(|part| Object::parse(text.as_bytes()).is_some_and(|all| all.get(part) == Some("true")))
    }

    /// How it has tasks.
    pub(crate) fn tasks(&self) -> ServerTasks {
        ServerTasks::of(self.revision, &self.capabilities())
    }

    /// The answer to `server/discover`: as the server wrote it, with a name where it gave none (`translation` 6.3).
    pub(crate) fn discover(&self, backend: &BackendId) -> Payload {
        if self.server().is_some() {
            return self.result.clone();
        }
        let text = String::from_utf8_lossy(self.result.json()).into_owned();
        let mut draft = Draft::of(&text);
        if draft.get(meta::META).is_none_or(|meta| !meta.is_object()) {
            draft.set(meta::META, "{}");
        }
        let unnamed = format!(r#"{{"name":"{backend}","version":"unknown"}}"#);
        draft.each(meta::META).for_each(|meta| meta.set(meta::SERVER_INFO, unnamed.clone()));
        let named = draft.text();
        Payload::new(self.revision, named.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_server_said_is_taken_for_true_for_a_while() {
        for (hint, seconds) in [("0", 60), ("90000", 90), ("99999999999", 3600), ("\"x\"", 60)] {
            let result = Payload::new(Revision::V2026_07_28, format!(r#"{{"ttlMs":{hint}}}"#).into());
            let introduction = Introduction::new(Revision::V2026_07_28, result);
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(introduction.is_fresh(), "{hint}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!introduction.is_fresh(), "{hint}");
        }
    }

    #[test]
    fn the_newest_common_version_is_taken_and_a_name_given_where_there_is_none() {
        let of = |names: &[&str]| {
            let result = json!({ "supportedVersions": names, "capabilities": { "resources": { "subscribe": true } } });
            Payload::of(Revision::V2026_07_28, &result)
        };
        let modern = of(&["2025-11-25", "2026-07-28", "2099-01-01"]);
        assert_eq!(Introduction::versions(&modern), Some(Versions::Modern(Revision::V2026_07_28)));
        assert_eq!(Introduction::versions(&of(&["2099-01-01", "2025-06-18"])), Some(Versions::Legacy));
        assert_eq!(
            Introduction::versions(&of(&["2099-01-01"])),
            Some(Versions::Foreign(vec!["2099-01-01".to_owned()]))
        );
        assert_eq!(Introduction::versions(&Payload::empty(Revision::V2026_07_28)), None);
        let introduction = Introduction::new(Revision::V2026_07_28, modern);
        assert!(introduction.offers("resources", Some("subscribe")) && !introduction.offers("tools", None));
        let named = introduction.discover(&BackendId::parse("b1").unwrap());
        let named = Introduction::new(Revision::V2026_07_28, named);
        assert_eq!(named.server().as_deref(), Some("b1 unknown"));
    }
}
