//! Texts for scopes, redirect targets and times.

use std::time::Duration;

use super::host_name::HostName;
use crate::{
    model::{BackendId, Groups, Rights, Scope, Scopes, TokenDelivery},
    oauth::{GrantView, RedirectTarget},
    support::Timestamp,
};

/// One permission that an app requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Permission {
    pub(super) scope: String,
    pub(super) text: String,
    pub(super) sensitivity: Sensitivity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sensitivity {
    /// Ordinary use of servers.
    Ordinary,
    /// Access to the gateway itself.
    High,
}

/// The receiver of a response or of tokens, as pages describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) host: HostName,
    pub(super) kind: &'static str,
    pub(super) caution: Option<&'static str>,
}

/// Descriptions of scopes (`OA-70`).
pub(super) fn permissions(scopes: &Scopes, groups: &Groups) -> Vec<Permission> {
    let permission = |scope: &Scope| Permission {
        scope: scope.to_string(),
        text: sentence(scope, groups),
        sensitivity: sensitivity(scope),
    };
    scopes.iter().map(permission).collect()
}

/// Descriptions of the rights of a key.
pub(super) fn rights(rights: &Rights, groups: &Groups) -> Vec<Permission> {
    let ordinary = |text: String| Permission { scope: String::new(), text, sensitivity: Sensitivity::Ordinary };
    let own = Scopes::of(&rights.backends);
    let of_all = "Use every server behind this gateway, including those added later";
    let text = |scope: &Scope| if *scope == Scope::Use { of_all.to_owned() } else { sentence(scope, groups) };
    let mut lines: Vec<Permission> = own.iter().map(|scope| ordinary(text(scope))).collect();
    if lines.is_empty() {
        lines.push(ordinary("Log in, and use no server yet".to_owned()));
    }
    if rights.admin {
        let text = sentence(&Scope::Admin, groups);
        lines.push(Permission { scope: String::new(), text, sensitivity: Sensitivity::High });
    }
    lines
}

/// Description of a redirect target (`OA-70`).
pub(super) fn destination(target: &RedirectTarget) -> Destination {
    match target {
        RedirectTarget::Web(host) => {
            let host = HostName::of(host);
            let caution = host.is_foreign().then_some(
                "This name has letters beyond a to z, written as xn--. On other pages it may look like a name that you \
                 know.",
            );
            Destination { host, kind: "a web site", caution }
        }
        RedirectTarget::Loopback(host) => Destination {
            host: HostName::whole(host),
            kind: "an app on this computer",
            caution: Some(
                "Any program on this computer can send this request. Continue only if you started it just now.",
            ),
        },
        RedirectTarget::App(scheme) => Destination {
            host: HostName::whole(&format!("{}:", scheme.trim_end_matches(':'))),
            kind: "an app on this computer, opened by its own link type",
            caution: Some("Continue only if you started this in the app just now."),
        },
    }
}

/// The receiver of a grant's tokens.
pub(super) fn grant_destination(view: &GrantView) -> Destination {
    match (&view.redirect, &view.grant.delivery) {
        (Some(target), _) => destination(target),
        (None, TokenDelivery::Service) => Destination {
            host: HostName::whole("a service"),
            kind: "a program with an account of its own",
            caution: None,
        },
        (None, TokenDelivery::Assertion) => Destination {
            host: HostName::whole("a managed app"),
            kind: "an app that your login provider lets in for you",
            caution: None,
        },
        (None, TokenDelivery::Device | TokenDelivery::Redirect(_)) => {
            Destination { host: HostName::whole("a device"), kind: "a program that showed a code", caution: None }
        }
    }
}

/// A text for a page. Backticks become quotation marks, and numbers of system errors are removed: only a terminal needs
/// them.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        plain.push_str(before);
        rest = match after.split_once(')') {
            Some((number, after)) if number.parse::<i32>().is_ok() => after,
            _ => {
                plain.push_str(" (os error ");
                after
            }
        };
    }
    plain.push_str(rest);
    let parts = plain.split('`').enumerate();
    parts.fold(String::with_capacity(text.len()), |told, (number, part)| match number {
        0 => told + part,
        odd if odd % 2 == 1 => told + "“" + part,
        _ => told + "”" + part,
    })
}

/// A day, such as `29 May 2027` (UTC).
pub(super) fn day(moment: Timestamp) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let text = moment.to_string();
    let mut parts = text.split(['-', 'T']);
    let mut number = || parts.next()?.parse::<usize>().ok();
    let (Some(year), Some(month), Some(day)) = (number(), number(), number()) else { return text };
    month.checked_sub(1).and_then(|at| MONTHS.get(at)).map_or(text, |month| format!("{day} {month} {year}"))
}

/// A duration in its largest whole unit, such as `180 days`.
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

/// Remaining time, rounded to the nearest unit: a link for three days still has three days left a minute later.
pub(super) fn span_left(duration: Duration) -> String {
    span(match duration.as_secs() {
        0..60 => duration,
        60..3_600 => duration + Duration::from_secs(30),
        3_600..86_400 => duration + Duration::from_mins(30),
        _ => duration + Duration::from_hours(12),
    })
}

/// Time since a moment, such as `5 minutes ago`.
pub(super) fn ago(since: Duration) -> String {
    if since < Duration::from_mins(1) { "just now".to_owned() } else { format!("{} ago", span(since)) }
}

/// A number of things, such as `1 tool` or `12 tools`.
pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn sentence(scope: &Scope, groups: &Groups) -> String {
    match scope {
        Scope::Use => "Use every server behind this gateway that your key opens".to_owned(),
        Scope::Backend(id) => format!("Use {}", named(id, groups)),
        Scope::BackendRead(id) => format!("Use {}, read-only tools only", named(id, groups)),
        Scope::Admin => "See the state of the gateway and administer it".to_owned(),
    }
}

/// A server, or a group with its servers.
fn named(id: &BackendId, groups: &Groups) -> String {
    let Some(group) = groups.find(id) else { return format!("the server “{id}”") };
    let servers: Vec<String> = group.servers.iter().map(|server| format!("“{server}”")).collect();
    format!("the group “{id}”: the servers {}", servers.join(", "))
}

fn sensitivity(scope: &Scope) -> Sensitivity {
    match scope {
        Scope::Admin => Sensitivity::High,
        Scope::Use | Scope::Backend(_) | Scope::BackendRead(_) => Sensitivity::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GroupSpec;

    #[test]
    fn durations_are_shown_in_their_largest_unit() {
        assert_eq!(span(Duration::from_secs(1)), "1 second");
        assert_eq!(span(Duration::from_mins(90)), "1 hour");
        assert_eq!(span(Duration::from_hours(180 * 24)), "180 days");
        assert_eq!(span_left(Duration::from_hours(72) - Duration::from_mins(5)), "3 days");
        assert_eq!(span_left(Duration::from_hours(1) - Duration::from_secs(1)), "1 hour");
        assert_eq!(ago(Duration::from_secs(59)), "just now");
        assert_eq!(ago(Duration::from_mins(5)), "5 minutes ago");
    }

    #[test]
    fn a_page_shows_no_signs_of_a_terminal() {
        for (text, expected) in [
            ("set `auth`, or `a` and `b`", "set “auth”, or “a” and “b”"),
            ("Connection refused (os error 111)", "Connection refused"),
            ("a (os error 2), b (os error x) (os error 5)", "a, b (os error x)"),
            ("plain", "plain"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn a_day_is_written_out() {
        assert_eq!(day(Timestamp::from_seconds(0)), "1 January 1970");
        assert_eq!(day(Timestamp::from_seconds(1_811_548_800)), "29 May 2027");
    }

    #[test]
    fn every_scope_has_a_sentence() {
        let scopes = Scopes::parse("mcp:use mcp:git mcp:git:read mcp:work mcp:work:read mcp:admin").unwrap();
        let id = |name| BackendId::parse(name).unwrap();
        let work = GroupSpec { id: id("work"), servers: vec![id("git"), id("files")], tools: None };
        let told: Vec<String> = permissions(&scopes, &std::iter::once(work).collect())
            .into_iter()
            .map(|permission| permission.text)
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        Use every server behind this gateway that your key opens
        Use the server “git”
        Use the group “work”: the servers “git”, “files”
        Use the server “git”, read-only tools only
        Use the group “work”: the servers “git”, “files”, read-only tools only
        See the state of the gateway and administer it
        ");
    }
}
