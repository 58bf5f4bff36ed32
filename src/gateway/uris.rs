//! Resource URIs on the merged endpoint (`translation` section 5). Knows nothing of lists and calls.
//!
//! `<backend>+<original>`, which keeps paths and RFC 6570 templates and can be undone without a table. `ui://` keeps its
//! scheme, since MCP Apps hosts look for it: `ui://<backend>+<rest>`. `http://` and `https://` stay as they are, since
//! clients may fetch them by themselves; whose they are is found in the lists.

use crate::model::BackendId;

const UI: &str = "ui://";

/// Whose a URI of the merged endpoint is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// The backend of this name, which knows the resource by this URI.
    Backend(&'a str, String),
    /// A web address: the lists must tell.
    Listed,
    /// Nobody's.
    Unknown,
}

/// The URI of `uri` of `backend` on the merged endpoint; `None` where it stays as it is.
pub(crate) fn exposed(backend: &BackendId, uri: &str) -> Option<String> {
    if is_web(uri) {
        return None;
    }
    Some(uri.strip_prefix(UI).map_or_else(|| format!("{backend}+{uri}"), |rest| format!("{UI}{backend}+{rest}")))
}

/// Whose the merged URI `uri` is.
pub(crate) fn origin(uri: &str) -> Origin<'_> {
    if is_web(uri) {
        return Origin::Listed;
    }
    let (scheme, rest) = uri.strip_prefix(UI).map_or(("", uri), |rest| (UI, rest));
    match rest.split_once('+') {
        Some((backend, original)) if BackendId::parse(backend).is_ok() => {
            Origin::Backend(backend, format!("{scheme}{original}"))
        }
        _ => Origin::Unknown,
    }
}

fn is_web(uri: &str) -> bool {
    let starts = |scheme: &str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("https://") || starts("http://")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_scheme_goes_its_way() {
        let shown = |uri| exposed(&BackendId::parse("b1").unwrap(), uri);
        assert_eq!(shown("file:///{path}").as_deref(), Some("b1+file:///{path}"));
        assert_eq!(shown("ui://w/a.html").as_deref(), Some("ui://b1+w/a.html"));
        assert_eq!(shown("HTTPS://example.com/a+b"), None);
        assert_eq!(origin("https://example.com/a+b"), Origin::Listed);
        assert_eq!(origin("file:///a"), Origin::Unknown);
        assert_eq!(origin("b1+git+ssh://x"), Origin::Backend("b1", "git+ssh://x".to_owned()));
    }

    proptest! {
        #[test]
        fn the_way_back_leads_to_the_same_uri(backend in "[a-z][a-z0-9-]{0,31}", uri in "(ui://)?.{0,60}") {
            let id = BackendId::parse(&backend).unwrap();
            let origin = exposed(&id, &uri).map(|shown| format!("{:?}", origin(&shown)));
            let expected = (!is_web(&uri)).then(|| format!("{:?}", Origin::Backend(&backend, uri)));
            prop_assert_eq!(origin, expected);
        }
    }
}
