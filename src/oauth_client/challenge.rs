//! `WWW-Authenticate` challenges (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1).

/// Parameters of a server's `Bearer` challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// URL of the protected resource's metadata.
    pub resource_metadata: Option<String>,
    /// Scopes that the request needs.
    pub scope: Option<String>,
    pub error: Option<String>,
    /// The scheme of the first challenge, if none is `Bearer`.
    pub other_scheme: Option<String>,
}

// === impl BearerChallenge ===

impl BearerChallenge {
    /// The code with which a server asks for further scopes.
    pub(super) const MORE: &str = "insufficient_scope";

    /// The parameters of the first `Bearer` challenge in these headers.
    pub fn of(headers: &[String]) -> Self {
        let bearer = headers.iter().find_map(|header| after_bearer(header));
        let mut challenge = Self::default();
        if bearer.is_none() {
            let scheme = |header: &String| header.split([' ', ',']).find(|word| !word.is_empty()).map(str::to_owned);
            challenge.other_scheme = headers.iter().find_map(scheme);
        }
        for (name, value) in bearer.map(parameters).unwrap_or_default() {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scope = Some(value),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        challenge
    }

    /// The scopes that the request needs, separated by spaces; empty if the server does not say.
    pub fn wanted(&self) -> &str {
        self.scope.as_deref().unwrap_or_default()
    }

    /// True if the token is valid and lacks scopes (RFC 6750 3.1).
    pub fn asks_for_more(&self) -> bool {
        self.error.as_deref() == Some(Self::MORE)
    }
}

/// The text after the scheme `Bearer`, even if other challenges or empty `Bearer` ones come first. `Bearer` in a quoted
/// string does not count.
fn after_bearer(header: &str) -> Option<&str> {
    const SCHEME: &str = "bearer";
    let (mut is_quoted, mut is_escaped, mut may_begin) = (false, false, true);
    let mut bare = None;
    for (at, byte) in header.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => (is_quoted, may_begin) = (!is_quoted, false),
            _ if is_quoted => {}
            b',' => may_begin = true,
            b' ' | b'\t' => {}
            _ if may_begin => {
                may_begin = false;
                let Some((name, after)) = header[at..].split_at_checked(SCHEME.len()) else { break };
                if !name.eq_ignore_ascii_case(SCHEME) {
                    continue;
                }
                if after.starts_with([' ', '\t']) {
                    return Some(after);
                }
                if after.is_empty() || after.starts_with(',') {
                    bare = Some("");
                }
            }
            _ => {}
        }
    }
    bare
}

/// The parameters `name=value` or `name="value"` up to the next challenge.
fn parameters(text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some((name, after)) = rest.split_once('=') else { return found };
        let name = name.trim_end();
        if name.is_empty() || name.contains([' ', '\t', '"']) {
            return found;
        }
        let (value, after) = value(after.trim_start());
        found.push((name, value));
        rest = after;
    }
}

/// One value, and the text after it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        // some servers use single quotes
        if let Some((value, after)) = text.strip_prefix('\'').and_then(|quoted| quoted.split_once('\'')) {
            return (value.to_owned(), after);
        }
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(header: &str) -> (Option<String>, Option<String>) {
        let challenge = BearerChallenge::of(&[header.to_owned()]);
        (challenge.resource_metadata, challenge.scope)
    }

    #[test]
    fn the_parameters_of_the_bearer_challenge_are_found() {
        let metadata = Some("https://a.example/x".to_owned());
        for header in [
            r#"Bearer resource_metadata="https://a.example/x", scope="a b""#,
            r#"bearer error="invalid_token",scope="a b" , resource_metadata=https://a.example/x"#,
            r#"Basic realm="bearer x", Bearer realm="q\"x", scope="a b", resource_metadata="https://a.example/x""#,
            r#"Basic realm="x, Bearer scope=evil", Bearer scope="a b", resource_metadata="https://a.example/x""#,
            "Bearer scope='a b', resource_metadata='https://a.example/x'",
            r#"BEARER Scope="a b", RESOURCE_METADATA="https://a.example/x", DPoP algs="ES256""#,
        ] {
            assert_eq!(challenge(header), (metadata.clone(), Some("a b".to_owned())), "{header}");
        }
    }

    #[test]
    fn other_challenges_and_broken_ones_give_nothing() {
        for header in ["", "Bearer", "Basic scope=\"x\"", "Bearers scope=x", "Bearer =x", "Bearer token68=="] {
            assert_eq!(challenge(header), (None, None), "{header}");
        }
        assert_eq!(challenge("Bearer scope=\"open").1.as_deref(), Some("open"));
        let scheme = |header: &str| BearerChallenge::of(&[header.to_owned()]).other_scheme;
        assert_eq!((scheme("Basic realm=x").as_deref(), scheme("DPoP").as_deref()), (Some("Basic"), Some("DPoP")));
        assert_eq!((scheme("Bearer"), scheme("Basic realm=x, Bearer, DPoP"), scheme("")), (None, None, None));
    }
}
