//! The form in which paths are logged.

use http::Uri;

/// Prefixes of secrets: API keys, refresh tokens, access tokens.
const SECRETS: [&str; 3] = ["lkk_", "lkr_", "eyJ"];

/// The path for the log, cut where a secret begins that someone put there. The query may rightly hold a key, and is
/// never logged (`OA-123`).
pub(super) fn logged_path(uri: &Uri) -> String {
    let path = uri.path();
    match SECRETS.into_iter().filter_map(|start| path.find(start)).min() {
        Some(at) => format!("{}…", &path[..at]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_123_a_secret_in_a_path_is_not_logged() {
        let logged = |uri: &'static str| logged_path(&Uri::from_static(uri));
        assert_eq!(logged("/mcp/files?api_key=lkk_a"), "/mcp/files");
        for secret in ["/mcp/lkk_abc_def_0", "/mcp/lkr_abc_0/x", "/mcp/eyJhbGci.eyJpc3Mi.x"] {
            assert_eq!(logged(secret), "/mcp/…");
        }
    }
}
