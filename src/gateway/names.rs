//! Names of tools and prompts on the merged endpoint (`translation` section 5). Knows nothing of lists and calls.
//!
//! `<backend>__<name>`, always of `[A-Za-z0-9_-]{1,64}`, which every client accepts. A backend's name holds no `_`, so
//! the first `__` ends it. A name that does not fit is shortened and marked with 8 hexadecimal digits of its SHA-256;
//! what it stands for is found in the backend's list.

use crate::{model::BackendId, support::Digest};

/// The most characters of a merged name.
const LONGEST: usize = 64;

/// The name of `name` of `backend` on the merged endpoint.
pub(crate) fn exposed(backend: &BackendId, name: &str) -> String {
    let whole = format!("{backend}__{name}");
    if whole.len() <= LONGEST && !name.is_empty() && name.chars().all(is_plain) {
        return whole;
    }
    let room = LONGEST - backend.as_str().len() - "__".len() - "_12345678".len();
    let start: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(room).collect();
    format!("{backend}__{start}_{}", Digest::sha256(name).short_hex(4))
}

/// The backend's name and the rest of a merged name.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once("__")
}

/// Whether the rest of a merged name may be a shortened one, so that the list must tell.
pub(crate) fn may_be_short(rest: &str) -> bool {
    let Some(at) = rest.len().checked_sub(9) else { return false };
    let tail = &rest.as_bytes()[at..];
    tail[0] == b'_' && tail[1..].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
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
        assert_eq!(exposed(&git, "_log"), "git___log");
        assert_eq!(exposed(&git, "repo.log"), "git__repo_log_0823bac8");
        assert_ne!(exposed(&git, "repo.log"), exposed(&git, "repo/log"));
        assert_eq!(exposed(&git, &"x".repeat(80)).len(), 64);
        assert_eq!(exposed(&backend(&"b".repeat(32)), &"x".repeat(80)).len(), 64);
    }

    proptest! {
        #[test]
        fn every_name_fits_every_client_and_tells_its_backend(
            backend_name in "[a-z][a-z0-9-]{0,31}", name in ".{0,100}"
        ) {
            let shown = exposed(&backend(&backend_name), &name);
            prop_assert!((1..=64).contains(&shown.len()) && shown.chars().all(is_plain), "{shown}");
            let (id, rest) = split(&shown).unwrap();
            prop_assert_eq!(id, backend_name);
            prop_assert!(rest == name || may_be_short(rest), "{rest}");
        }
    }
}
