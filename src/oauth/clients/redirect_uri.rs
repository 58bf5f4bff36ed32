//! Redirect URIs: registration and matching (`OA-55` to `OA-62`).
//!
//! They are compared as raw text, because normalization hides differences that matter.

use url::{Host, Url, form_urlencoded};

/// Maximum length, in bytes (`OA-32`).
const LONGEST: usize = 2048;

/// Private-use schemes of well-known applications that have no period. They are allowed in addition to the operator's
/// (`OA-58`).
const WELL_KNOWN: [&str; 8] = ["cursor", "vscode", "vscode-insiders", "windsurf", "zed", "claude", "goose", "kiro"];

/// Schemes that are always refused (`OA-59`).
const REFUSED: &[&str] =
    &["javascript", "data", "vbscript", "file", "blob", "mailto", "about", "ws", "wss", "ftp", "view-source", "http"];

/// Loopback hosts. None of them matches another (`OA-57`).
const LOOPBACK: &[&str] = &["127.0.0.1", "[::1]", "localhost"];

/// A redirect URI that may be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectUri {
    raw: String,
    target: RedirectTarget,
}

/// Target of a redirect URI, as shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A web site: its host, with a port that is not the default.
    Web(String),
    /// An app on this computer that listens on this loopback host and port.
    Loopback(String),
    /// An app on this computer that owns this scheme.
    App(String),
}

/// Reason for refusing a redirect URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRedirectUri {
    /// Longer than 2048 bytes, or not a URI.
    #[error("a redirect URI is not an absolute URI of at most 2048 bytes")]
    Form,
    /// White space, control characters, backslashes, `*` and non-ASCII characters are never allowed.
    #[error("a redirect URI has a character that is not allowed")]
    Character,
    /// It has a fragment or names a user.
    #[error("a redirect URI has a fragment or a user name")]
    Part,
    /// The scheme is not allowed. Holds its beginning.
    #[error(
        "the scheme `{0}` of a redirect URI is not allowed; https, loopback http, schemes with a period and those of the \
         operator's `redirect_schemes` are"
    )]
    Scheme(String),
    /// The host is missing, or is a public suffix, where anyone may register.
    #[error("the host of a redirect URI is missing or is a public suffix")]
    Host,
}

impl RedirectUri {
    /// Checks a redirect URI for registration (`OA-58`, `OA-59`). `schemes` are schemes without a period that the
    /// operator allows in addition to the well-known ones.
    pub fn parse(raw: &str, schemes: &[String]) -> Result<Self, InvalidRedirectUri> {
        if raw.len() > LONGEST {
            return Err(InvalidRedirectUri::Form);
        }
        if !raw.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\*\"<>^`{|}".contains(&byte)) {
            return Err(InvalidRedirectUri::Character);
        }
        let (scheme, rest) = raw.split_once(':').ok_or(InvalidRedirectUri::Form)?;
        let url = Url::parse(raw).map_err(|_| InvalidRedirectUri::Form)?;
        if raw.contains('#') || !url.username().is_empty() || url.password().is_some() || authority(rest).contains('@')
        {
            return Err(InvalidRedirectUri::Part);
        }
        let target = match scheme {
            "https" => web(&url, rest)?,
            "http" => {
                RedirectTarget::Loopback(loopback(raw).ok_or_else(|| foreign_scheme(scheme))?.origin().to_owned())
            }
            _ => app(scheme, schemes)?,
        };
        Ok(Self { raw: raw.to_owned(), target })
    }

    /// A stored redirect URI, which was checked at registration.
    pub fn stored(raw: &str) -> Self {
        let (scheme, rest) = raw.split_once(':').unwrap_or((raw, ""));
        let target = match loopback(raw) {
            Some(loopback) => RedirectTarget::Loopback(loopback.origin().to_owned()),
            None if scheme == "https" => RedirectTarget::Web(authority(rest).to_owned()),
            None => RedirectTarget::App(scheme.to_owned()),
        };
        Self { raw: raw.to_owned(), target }
    }

    /// True if `presented` matches this registered URI: equal strings, except for the port of a loopback address
    /// (`OA-55`, `OA-56`).
    pub fn matches(&self, presented: &str) -> bool {
        match (loopback(&self.raw), loopback(presented)) {
            (Some(own), Some(other)) => own.host == other.host && own.path() == other.path(),
            _ => self.raw == presented,
        }
    }

    /// Target of the URI.
    pub fn target(&self) -> &RedirectTarget {
        &self.target
    }

    /// True if the URI's scheme belongs to an app.
    pub fn is_of_app(&self) -> bool {
        matches!(self.target, RedirectTarget::App(_))
    }

    /// The host without its port, or an app's scheme. It identifies who gets the answers, for the operator's list
    /// (`OA-44`).
    pub fn recipient(&self) -> &str {
        match &self.target {
            RedirectTarget::App(scheme) => scheme,
            RedirectTarget::Web(authority) | RedirectTarget::Loopback(authority) => match authority.rsplit_once(':') {
                // the colons of an IPv6 address are in brackets
                Some((host, port)) if !port.contains(']') => host,
                _ => authority,
            },
        }
    }

    /// The URI as given.
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// The app's scheme and host, without a path and a query.
    pub fn home(&self) -> String {
        match &self.target {
            RedirectTarget::Web(authority) => format!("https://{authority}/"),
            RedirectTarget::Loopback(authority) => format!("http://{authority}/"),
            RedirectTarget::App(scheme) => {
                let rest = self.raw.get(scheme.len() + 1..).unwrap_or_default();
                if rest.starts_with("//") { format!("{scheme}://{}", authority(rest)) } else { format!("{scheme}:") }
            }
        }
    }

    /// The URI with response parameters appended to its query (`OA-62`).
    pub fn with(&self, parameters: &[(&str, &str)]) -> String {
        let (mut text, start) = match self.raw.find('?') {
            Some(at) => (self.raw.clone(), at + 1),
            None => (format!("{}?", self.raw), self.raw.len() + 1),
        };
        if text.len() > start && !text.ends_with('&') {
            text.push('&');
        }
        let start = text.len();
        form_urlencoded::Serializer::for_suffix(text, start).extend_pairs(parameters).finish()
    }

    /// The URI without the port of a loopback address, which identifies a registration (`OA-41`).
    pub fn without_port(&self) -> String {
        match loopback(&self.raw) {
            Some(parts) => format!("http://{}{}", parts.host, parts.path()),
            None => self.raw.clone(),
        }
    }
}

/// The parts of a loopback http URI.
struct Loopback<'a> {
    host: &'a str,
    authority: &'a str,
    /// Everything after the port.
    rest: &'a str,
}

impl<'a> Loopback<'a> {
    /// Everything after the port; an empty path is `/`.
    fn path(&self) -> String {
        if self.rest.starts_with('/') { self.rest.to_owned() } else { format!("/{}", self.rest) }
    }

    fn origin(&self) -> &'a str {
        self.authority
    }
}

fn loopback(raw: &str) -> Option<Loopback<'_>> {
    let rest = raw.strip_prefix("http://")?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = LOOPBACK.iter().find(|host| authority.starts_with(**host))?;
    let port = &authority[host.len()..];
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let valid_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    valid_port.then_some(Loopback { host, authority, rest })
}

fn web(url: &Url, rest: &str) -> Result<RedirectTarget, InvalidRedirectUri> {
    if !rest.starts_with("//") {
        return Err(InvalidRedirectUri::Form);
    }
    if let Some(Host::Domain(domain)) = url.host() {
        let domain = domain.trim_end_matches('.');
        // N-21; names that are not listed pass, such as those in an intranet
        let suffix = psl::suffix(domain.as_bytes());
        if domain.is_empty() || suffix.is_some_and(|suffix| suffix.is_known() && suffix == domain) {
            return Err(InvalidRedirectUri::Host);
        }
    }
    let authority = authority(rest);
    if authority.is_empty() { Err(InvalidRedirectUri::Host) } else { Ok(RedirectTarget::Web(authority.to_owned())) }
}

fn app(scheme: &str, schemes: &[String]) -> Result<RedirectTarget, InvalidRedirectUri> {
    let lowered = scheme.to_ascii_lowercase();
    let allowed =
        scheme.contains('.') || WELL_KNOWN.contains(&scheme) || schemes.iter().any(|allowed| allowed == scheme);
    if allowed && !REFUSED.contains(&lowered.as_str()) {
        Ok(RedirectTarget::App(scheme.to_owned()))
    } else {
        Err(foreign_scheme(scheme))
    }
}

fn foreign_scheme(scheme: &str) -> InvalidRedirectUri {
    InvalidRedirectUri::Scheme(scheme.chars().take(40).collect())
}

/// Authority component: the text between `//` and the path.
fn authority(rest: &str) -> &str {
    let Some(rest) = rest.strip_prefix("//") else { return "" };
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn an_accepted_uri_matches_itself_and_keeps_any_state(raw in "[ -~]{0,40}", state in ".*") {
            for raw in [format!("https://a.example/{raw}"), format!("http://localhost:1{raw}"), format!("cursor:{raw}")] {
                let Ok(uri) = parse(&raw) else { continue };
                prop_assert!(uri.matches(&raw));
                let url = Url::parse(&uri.with(&[("state", &state)])).unwrap();
                let last = url.query_pairs().last().map(|(_, value)| value.into_owned());
                prop_assert_eq!(last.as_deref(), Some(state.as_str()));
                let registered = Url::parse(&raw).unwrap();
                prop_assert_eq!(url.host_str(), registered.host_str());
            }
        }
    }

    fn parse(raw: &str) -> Result<RedirectUri, InvalidRedirectUri> {
        RedirectUri::parse(raw, &["myapp".to_owned()])
    }

    #[test]
    fn oa_058_redirect_uris_of_real_clients_are_accepted() {
        for raw in [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
            "https://claude.ai/api/mcp/auth_callback",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
            "http://[::1]:9/cb?x=y",
            "com.example.app:/oauth",
            "https://intranet/cb",
        ] {
            let parsed = parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}"));
            assert_eq!(*parsed.target(), *RedirectUri::stored(raw).target(), "{raw}");
        }
    }

    #[test]
    fn oa_059_dangerous_redirect_uris_are_refused() {
        for raw in [
            "http://example.com/cb", // N-14
            "javascript:alert(1)",   // N-15
            "JaVaScRiPt:alert(1)",
            " \tjavascript:alert(1)",
            "java\nscript:alert(1)",
            "https://u:p@a/cb", // N-17
            "https://@a.example/cb",
            "http://localhost@evil.com/cb", // N-18
            "http://127.0.0.1.evil.com/cb",
            "http://0.0.0.0/cb",
            "http://localhost:99999/cb",
            "http://localhost:+80/cb",
            "https://*.x.com/cb", // N-20
            "https://co.uk/cb",   // N-21
            "https://co.uk./cb",
            "https://a.example/cb#f",
            "https:/a.example/cb",
            "/relative",
            "",
            "unknown://x",
            "data:text/html,x",
            "https://a.example\\@evil.com/",
        ] {
            assert!(parse(raw).is_err(), "{raw}");
        }
    }

    fn matches(registered: &str, presented: &str) -> bool {
        RedirectUri::stored(registered).matches(presented)
    }

    #[test]
    fn oa_055_a_uri_is_compared_as_it_is() {
        assert!(matches("https://a.example/cb", "https://a.example/cb"));
        for other in
            ["https://a.example/cb/", "https://A.example/cb", "https://a.example/cb?x=1", "https://a.example:444/cb"]
        {
            assert!(!matches("https://a.example/cb", other), "{other}");
        }
    }

    #[test]
    fn oa_056_only_the_port_of_a_loopback_address_may_differ() {
        assert!(matches("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"));
        assert!(matches("http://localhost", "http://localhost:1/"));
        assert!(!matches("http://127.0.0.1/cb", "http://127.0.0.1:4711/other"));
        assert!(!matches("http://127.0.0.1/cb", "http://127.0.0.1:4711:1/cb"));
    }

    #[test]
    fn oa_057_loopback_hosts_do_not_stand_for_each_other() {
        let hosts = ["127.0.0.1", "localhost", "[::1]"];
        for (registered, presented) in hosts.iter().flat_map(|one| hosts.iter().map(move |other| (one, other))) {
            let is_same = matches(&format!("http://{registered}/cb"), &format!("http://{presented}:4711/cb"));
            assert_eq!(is_same, registered == presented, "{registered} {presented}");
        }
    }

    #[test]
    fn oa_062_parameters_follow_the_query_that_is_there() {
        let with = |raw: &str| RedirectUri::stored(raw).with(&[("code", "c"), ("state", "a+b%2Fc=&é")]);
        let encoded = "code=c&state=a%2Bb%252Fc%3D%26%C3%A9";
        assert_eq!(with("http://localhost:1/cb"), format!("http://localhost:1/cb?{encoded}"));
        assert_eq!(with("https://a.example/cb?x=1"), format!("https://a.example/cb?x=1&{encoded}"));
        assert_eq!(with("cursor://a/cb?"), format!("cursor://a/cb?{encoded}"));
    }
}
