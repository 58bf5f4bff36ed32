//! The events of the audit trail: each is recorded somewhere, and each is in the documentation.

use std::collections::BTreeSet;

use super::{code, sources};

/// The folder of the events.
const EVENTS: &str = "audit/event";

#[test]
fn oa_141_every_event_of_the_audit_trail_is_recorded_and_documented() {
    let (events, others): (Vec<_>, Vec<_>) =
        sources().into_iter().map(|(path, text)| (path, code(&text))).partition(|(path, _)| path.starts_with(EVENTS));
    let recorded: String = others.iter().map(|(_, text)| text.as_str()).collect();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let (mut names, mut broken) = (BTreeSet::new(), Vec::new());
    for (path, text) in &events {
        // its name in the trail, after the constructor of its line
        for constructor in ["L::new(", "L::alarming(", "AuditLine::new("] {
            for after in text.split(constructor).skip(1) {
                names.insert(after.trim_start().trim_start_matches('"').split('"').next().unwrap().to_owned());
            }
        }
        for event in variants(text) {
            if !recorded.contains(&event) {
                broken.push(format!("{path}: nothing records `{event}`"));
            }
        }
    }
    assert!(names.len() > 30, "{names:?}");
    broken.extend(
        names
            .iter()
            .filter(|name| !page.contains(&format!("`{name}`")))
            .map(|name| format!("`{name}` is not in docs/operations.md")),
    );
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The variants of the enums of a file whose name ends in `Event`, or is `UserChange` or `Revoker`, as they are written
/// where one is made. The first enum of events is their sum.
fn variants(text: &str) -> Vec<String> {
    let mut variants = Vec::new();
    for declared in text.split("pub enum ").skip(1) {
        let (name, body) = declared.split_once(" {\n").unwrap();
        if name == "AuditEvent" {
            continue;
        }
        let body = body.split("\n}").next().unwrap();
        let own = body
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(char::is_uppercase));
        let word = |line: &str| line.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
        variants.extend(own.map(|line| format!("{name}::{}", word(line))));
    }
    variants
}
