//! Names, URIs and task ids on the merged endpoint, in both directions (`translation` section 5).
//!
//! - **Names** of tools and prompts: `<backend>__<name>`, always matching `[A-Za-z0-9_-]{1,64}`, which every client
//!   accepts; shorter if the operator configures it, for clients that add a prefix. A backend's name contains no `_`,
//!   so the first `__` ends it. A name that does not fit is shortened and marked with 8 hexadecimal digits of its
//!   SHA-256; the backend's list has the original.
//! - **URIs** of resources: `<backend>+<original>`, which keeps paths and RFC 6570 templates and can be undone without
//!   a table. `ui://` keeps its scheme, since MCP Apps hosts look for it: `ui://<backend>+<rest>`. `http://` and
//!   `https://` stay unchanged, since clients may fetch them directly; origins and lists determine their owner.
//! - **Ids** of tasks: `<backend>.<id>`. A backend's name contains no period.

use url::{Origin, Url};

use crate::{model::BackendId, support::Digest};

const UI: &str = "ui://";

/// The owner of a URI of the merged endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UriOwner<'a> {
    /// The backend with this name; the resource has this URI there.
    Backend(&'a str, String),
    /// A web address: origins and lists decide.
    Listed,
    Unknown,
}

// === names ===

/// The full merged name of `backend`'s `name`.
pub(crate) fn prefixed(backend: &BackendId, name: &str) -> String {
    format!("{backend}__{name}")
}

/// The merged name of `backend`'s `name`, of at most `longest` characters. `longest` must be at least 44, so that the
/// longest backend name and the digits fit.
pub(crate) fn merged_name(backend: &BackendId, name: &str, longest: usize) -> String {
    let whole = prefixed(backend, name);
    if whole.len() <= longest && !name.is_empty() && name.chars().all(is_plain) {
        return whole;
    }
    let room = longest.saturating_sub(backend.as_str().len() + "__".len() + "_12345678".len());
    let start: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(room).collect();
    format!("{backend}__{start}_{}", Digest::sha256(name).short_hex(4))
}

/// Splits a merged name into the backend's name and the rest.
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    let (backend, rest) = name.split_once('_')?;
    Some((backend, rest.strip_prefix('_')?))
}

/// True if the rest of a merged name may be shortened, so that the list decides.
pub(crate) fn may_be_short(rest: &str) -> bool {
    let Some(at) = rest.len().checked_sub(9) else { return false };
    let tail = &rest.as_bytes()[at..];
    tail[0] == b'_' && tail[1..].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

// === URIs ===

/// The merged URI for `backend`'s `uri`; `None` if it stays unchanged.
pub(crate) fn merged_uri(backend: &BackendId, uri: &str) -> Option<String> {
    if is_web(uri) {
        return None;
    }
    Some(uri.strip_prefix(UI).map_or_else(|| format!("{backend}+{uri}"), |rest| format!("{UI}{backend}+{rest}")))
}

/// Finds the owner of a URI on the merged endpoint.
pub(crate) fn uri_owner(uri: &str) -> UriOwner<'_> {
    if is_web(uri) {
        return UriOwner::Listed;
    }
    let (scheme, rest) = uri.strip_prefix(UI).map_or(("", uri), |rest| (UI, rest));
    match rest.split_once('+') {
        Some((backend, original)) if BackendId::parse(backend).is_ok() => {
            UriOwner::Backend(backend, format!("{scheme}{original}"))
        }
        _ => UriOwner::Unknown,
    }
}

/// Origin of a web address, or of a template that is literal up to its path; `None` for anything else.
pub(crate) fn web_origin(uri: &str) -> Option<Origin> {
    if !is_web(uri) {
        return None;
    }
    let literal = match uri.split_once('{') {
        Some((literal, _)) => {
            let authority = literal.split_once("://")?.1;
            // an expression could extend the host
            authority.contains(['/', '?', '#']).then_some(literal)?
        }
        None => uri,
    };
    Some(Url::parse(literal).ok()?.origin())
}

/// True for addresses that clients may fetch directly.
pub(crate) fn is_web(uri: &str) -> bool {
    let starts = |scheme: &str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("https://") || starts("http://")
}

// === task ids ===

/// The merged id of `backend`'s task.
pub(crate) fn merged_task_id(backend: &BackendId, id: &str) -> String {
    format!("{backend}.{id}")
}

/// Splits a merged task id into the backend's name and the backend's id.
pub(crate) fn split_task_id(id: &str) -> Option<(&str, &str)> {
    id.split_once('.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backend(name: &str) -> BackendId {
        BackendId::parse(name).unwrap()
    }

    #[test]
    fn a_name_that_does_not_fit_is_shortened_and_marked() {
        let git = backend("git");
        assert_eq!(merged_name(&git, "_log", 64), "git___log");
        assert_eq!(merged_name(&git, "repo.log", 64), "git__repo_log_0823bac8");
        assert_ne!(merged_name(&git, "repo.log", 64), merged_name(&git, "repo/log", 64));
        assert_eq!(merged_name(&git, &"x".repeat(80), 64).len(), 64);
        assert_eq!(merged_name(&backend(&"b".repeat(32)), &"x".repeat(80), 44).len(), 44);
    }

    #[test]
    fn each_scheme_goes_its_way() {
        let shown = |uri| merged_uri(&backend("b1"), uri);
        assert_eq!(shown("file:///{path}").as_deref(), Some("b1+file:///{path}"));
        assert_eq!(shown("ui://w/a.html").as_deref(), Some("ui://b1+w/a.html"));
        assert_eq!(shown("HTTPS://example.com/a+b"), None);
        assert_eq!(uri_owner("https://example.com/a+b"), UriOwner::Listed);
        assert_eq!(uri_owner("file:///a"), UriOwner::Unknown);
        assert_eq!(uri_owner("b1+git+ssh://x"), UriOwner::Backend("b1", "git+ssh://x".to_owned()));
    }

    #[test]
    fn an_origin_is_that_of_a_literal_host() {
        let origin = |uri| web_origin(uri).map(|origin| origin.ascii_serialization());
        assert_eq!(origin("HTTPS://User@A.example:443/x").as_deref(), Some("https://a.example"));
        assert_eq!(origin("http://a.example:8080/{x}").as_deref(), Some("http://a.example:8080"));
        for other in
            ["https://{host}/a", "https://a.example{/x}", "https://a.example{.tld}/", "file:///a", "https://", "x"]
        {
            assert_eq!(origin(other), None, "{other}");
        }
    }

    #[test]
    fn the_way_back_leads_to_the_same_task() {
        for id in ["786512e2", "a.b.c", "", "."] {
            assert_eq!(split_task_id(&merged_task_id(&backend("b1"), id)), Some(("b1", id)));
        }
        assert_eq!(split_task_id("786512e2"), None);
    }

    proptest! {
        #[test]
        fn every_name_fits_every_client_and_tells_its_backend(
            backend_name in "[a-z][a-z0-9-]{0,31}", name in ".{0,100}", longest in 44_usize..=64
        ) {
            let shown = merged_name(&backend(&backend_name), &name, longest);
            prop_assert!((1..=longest).contains(&shown.len()) && shown.chars().all(is_plain), "{shown}");
            let (id, rest) = split_name(&shown).unwrap();
            prop_assert_eq!(id, backend_name);
            prop_assert!(rest == name || may_be_short(rest), "{rest}");
        }

        #[test]
        fn the_way_back_leads_to_the_same_uri(backend_name in "[a-z][a-z0-9-]{0,31}", uri in "(ui://)?.{0,60}") {
            let owner = merged_uri(&backend(&backend_name), &uri).map(|shown| format!("{:?}", uri_owner(&shown)));
            let expected = (!is_web(&uri)).then(|| format!("{:?}", UriOwner::Backend(&backend_name, uri)));
            prop_assert_eq!(owner, expected);
        }
    }
}
