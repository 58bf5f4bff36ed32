//! Client ids that are URLs (`OA-45`), and their form.

use url::Url;

/// Prefix of the id of such a client. Ids from registration never have it (`OA-39`).
const SCHEME: &str = "https://";
/// Maximum length, in bytes.
const LONGEST: usize = 512;

/// The URL of a metadata document, which is the id of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientUrl(Url);

impl ClientUrl {
    /// True if this client id is meant as a URL, valid or not.
    pub(crate) fn is_meant(id: &str) -> bool {
        id.starts_with(SCHEME)
    }

    /// Reads a client id. A document must name itself with exactly the same text, so only one spelling is valid: the
    /// one of the URL parser.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        if !Self::is_meant(id) || id.len() > LONGEST {
            return None;
        }
        let url = Url::parse(id).ok()?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.path() != "/"
            && !url.path_segments()?.any(is_dots);
        (is_plain && url.as_str() == id).then_some(Self(url))
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// The host. People and the operator know the client by it.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }
}

/// True for `.` and `..`, even if written with escapes, which servers may decode.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_045_the_ids_of_real_clients_are_read() {
        for id in [
            "https://claude.ai/oauth/claude-code-client-metadata",
            "https://chatgpt.com/oauth/abc123/client.json",
            "https://xn--bcher-kva.example/x",
            "https://a.example:8443/%41/",
        ] {
            assert_eq!(ClientUrl::parse(id).expect(id).url().as_str(), id);
        }
    }

    #[test]
    fn oa_045_an_id_with_another_spelling_is_no_id() {
        for id in [
            "http://a.example/x",
            "https://a.example",
            "https://a.example/",
            "https://a.example/x#f",
            "https://a.example/x#",
            "https://a.example/x?y",
            "https://a.example/x?",
            "https://u@a.example/x",
            "https://u:p@a.example/x",
            "https://@a.example/x",
            "https://a.example/a/../b",
            "https://a.example/./b",
            "https://a.example/a/%2e%2e/b",
            "https://a.example/%2E/b",
            "https://a.example/a\\b",
            "https://a.example/a b",
            "https://a.example/a\tb",
            " https://a.example/x",
            "https://A.example/x",
            "https://a.example:443/x",
            "https://127.1/x",
            "https://bücher.example/x",
            "https:/a.example/x",
            "https:///a.example/x",
            "HTTPS://a.example/x",
        ] {
            assert_eq!(ClientUrl::parse(id), None, "{id}");
        }
        let longest = format!("https://a.example/{}", "x".repeat(512 - 18));
        assert!(ClientUrl::parse(&longest).is_some());
        assert_eq!(ClientUrl::parse(&format!("{longest}x")), None);
    }
}
