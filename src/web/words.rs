//! Scopes, targets, moments and spans of time in words. Knows nothing of pages.

use std::time::Duration;

use crate::{
    model::{Scope, Scopes},
    oauth::RedirectTarget,
};

/// One thing that an app asks to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Permission {
    /// The scope's own name.
    pub(super) scope: String,
    /// What it allows.
    pub(super) text: String,
    /// Whether to think twice about it.
    pub(super) weight: Weight,
}

/// Whether to think twice about a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// What apps are connected for.
    Ordinary,
    /// It reaches the gateway itself.
    Heavy,
}

/// Where the answer to an app goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    /// The host, or the scheme.
    pub(super) name: String,
    /// What stands there.
    pub(super) kind: &'static str,
    /// What to think of before going there.
    pub(super) caution: Option<&'static str>,
}

/// What the scopes allow, in words (`OA-70`).
pub(super) fn permissions(scopes: &Scopes) -> Vec<Permission> {
    scopes
        .iter()
        .map(|scope| Permission { scope: scope.to_string(), text: sentence(scope), weight: weigh(scope) })
        .collect()
}

/// Where a redirect leads, in words (`OA-70`).
pub(super) fn destination(target: &RedirectTarget) -> Destination {
    match target {
        RedirectTarget::Web(host) => Destination { name: host.clone(), kind: "a web site", caution: None },
        RedirectTarget::Loopback(host) => Destination {
            name: host.clone(),
            kind: "an app on this computer",
            caution: Some(
                "Any program on this computer can ask for this. Go on only if you have just started it yourself.",
            ),
        },
        RedirectTarget::App(scheme) => Destination {
            name: format!("{}:", scheme.trim_end_matches(':')),
            kind: "an app on this computer, by its own kind of link",
            caution: Some("Go on only if you have just started this from the app yourself."),
        },
    }
}

/// A span of time in its largest whole unit, such as `180 days`.
pub(super) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// How long ago something was, such as `5 minutes ago`.
pub(super) fn ago(since: Duration) -> String {
    if since < Duration::from_mins(1) { "just now".to_owned() } else { format!("{} ago", span(since)) }
}

/// A number of things, such as `1 tool` or `12 tools`.
pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn sentence(scope: &Scope) -> String {
    match scope {
        Scope::Use => "Use every server behind this gateway that your key opens".to_owned(),
        Scope::Backend(backend) => format!("Use the server “{backend}”"),
        Scope::BackendRead(backend) => format!("Use the server “{backend}”, its read-only tools alone"),
        Scope::Admin => "See the state of the gateway and administer it".to_owned(),
    }
}

fn weigh(scope: &Scope) -> Weight {
    match scope {
        Scope::Admin => Weight::Heavy,
        Scope::Use | Scope::Backend(_) | Scope::BackendRead(_) => Weight::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_their_largest_unit() {
        assert_eq!(span(Duration::from_secs(1)), "1 second");
        assert_eq!(span(Duration::from_mins(90)), "1 hour");
        assert_eq!(span(Duration::from_hours(180 * 24)), "180 days");
        assert_eq!(ago(Duration::from_secs(59)), "just now");
        assert_eq!(ago(Duration::from_mins(5)), "5 minutes ago");
    }

    #[test]
    fn every_scope_has_a_sentence() {
        let scopes = Scopes::parse("mcp:use mcp:git mcp:git:read mcp:admin").unwrap();
        let told: Vec<String> = permissions(&scopes).into_iter().map(|permission| permission.text).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        Use every server behind this gateway that your key opens
        Use the server “git”
        Use the server “git”, its read-only tools alone
        See the state of the gateway and administer it
        ");
    }
}
