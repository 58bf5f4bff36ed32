//! Parameters of an authorization request besides the standard ones: what particular services need, and what the
//! operator adds.

/// Google issues a refresh token only for its own parameters, and only after a consent. It rejects the scope
/// `offline_access`.
const GOOGLE: &str = "https://accounts.google.com";

/// Needs of a service when a person logs in there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceNeeds {
    pub parameters: &'static [(&'static str, &'static str)],
    pub prompts: &'static [&'static str],
    /// True if the service rejects the scope `offline_access`.
    pub refuses_offline_access: bool,
}

/// Refresh tokens, for access while the person is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfflineAccess {
    /// The login needs no refresh token.
    Unwanted,
    /// The login has no refresh token yet.
    Wanted,
    /// The login has a refresh token.
    Held,
}

/// The needs of the service with this issuer.
pub fn service_needs(issuer: &str, offline: OfflineAccess) -> ServiceNeeds {
    if issuer.trim_end_matches('/') != GOOGLE {
        return ServiceNeeds::default();
    }
    let parameters: &[_] = if offline == OfflineAccess::Unwanted { &[] } else { &[("access_type", "offline")] };
    let prompts: &[_] = if offline == OfflineAccess::Wanted { &["consent"] } else { &[] };
    ServiceNeeds { parameters, prompts, refuses_offline_access: true }
}

/// The parameters that a login sends: its own, and the operator's. Its own win; words of `prompt` are merged.
pub fn with_operators(own: &[(&str, &str)], prompts: &[&str], given: &[(String, String)]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut words = prompts.to_vec();
    for (name, value) in given {
        if name == "prompt" {
            words.extend(value.split_ascii_whitespace());
        } else if own.iter().all(|(own, _)| own != name) {
            all.push((name.clone(), value.clone()));
        }
    }
    let mut seen = Vec::new();
    words.retain(|word| {
        !seen.contains(word) && {
            seen.push(*word);
            true
        }
    });
    if !words.is_empty() {
        all.push(("prompt".to_owned(), words.join(" ")));
    }
    all
}

/// The scopes of both, each once.
pub fn union(one: Option<&str>, other: Option<&str>) -> String {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in [one, other].into_iter().flatten().flat_map(str::split_ascii_whitespace) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes.join(" ")
}

/// True if all scopes of `wanted` are among these.
pub fn covers(scopes: Option<&str>, wanted: &str) -> bool {
    let has = |scope: &str| scopes.is_some_and(|scopes| scopes.split_ascii_whitespace().any(|one| one == scope));
    wanted.split_ascii_whitespace().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn up_025_what_a_login_sends_goes_before_what_the_operator_adds() {
        let own = [("nonce", "n"), ("max_age", "0")];
        let given = pairs(&[("max_age", "9"), ("prompt", "consent login"), ("audience", "api")]);
        let expected = pairs(&[("nonce", "n"), ("max_age", "0"), ("audience", "api"), ("prompt", "login consent")]);
        assert_eq!(with_operators(&own, &["login"], &given), expected);
        assert_eq!(with_operators(&[], &[], &[]), []);
    }

    #[test]
    fn up_025_google_is_asked_for_a_consent_only_while_there_is_no_refresh_token() {
        let asked = |issuer, offline| {
            let needs = service_needs(issuer, offline);
            with_operators(needs.parameters, needs.prompts, &[])
        };
        let (offline, consent) = (("access_type", "offline"), ("prompt", "consent"));
        assert_eq!(asked("https://accounts.google.com", OfflineAccess::Wanted), pairs(&[offline, consent]));
        assert_eq!(asked("https://accounts.google.com/", OfflineAccess::Held), pairs(&[offline]));
        assert_eq!(asked("https://accounts.google.com", OfflineAccess::Unwanted), []);
        assert_eq!(asked("https://accounts.google.com.evil.example", OfflineAccess::Wanted), []);
    }

    #[test]
    fn up_003_a_step_up_asks_for_the_scopes_of_the_token_too() {
        assert_eq!(union(Some("a b"), Some("b c")), "a b c");
        assert_eq!(union(None, Some("c")), "c");
        assert!(covers(Some("a b"), "b") && covers(None, "") && !covers(Some("a"), "a b") && !covers(None, "a"));
    }
}
