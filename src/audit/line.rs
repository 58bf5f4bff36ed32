//! The form of an event shared by log and table: names and texts.

use serde_json::{Map, Value};

use crate::{storage::AuditRow, support::Timestamp};

/// One event as names and texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuditLine {
    pub(super) event: &'static str,
    /// The sentence in the log.
    text: &'static str,
    weight: Weight,
    fields: Vec<(&'static str, String)>,
    /// True if somebody else caused it than the user and the operator whom it names.
    is_of_stranger: bool,
}

/// The beginning of the name of an operator in `by`.
const OPERATOR: &str = "operator ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Usual,
    /// An attempt that an operator should see.
    Alarming,
}

// === impl AuditLine ===

impl AuditLine {
    pub(super) const fn new(event: &'static str, text: &'static str) -> Self {
        Self { event, text, weight: Weight::Usual, fields: Vec::new(), is_of_stranger: false }
    }

    /// An attempt that an operator should see.
    pub(super) fn alarming(event: &'static str, text: &'static str) -> Self {
        Self { weight: Weight::Alarming, ..Self::new(event, text) }
    }

    /// The summary of events of this name without rows and lines of their own.
    pub(super) const fn summary(event: &'static str) -> Self {
        Self::new(event, "further events")
    }

    pub(super) fn with(mut self, name: &'static str, value: &(impl ToString + ?Sized)) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    /// Adds a field, if it has a value.
    pub(super) fn maybe(self, name: &'static str, value: Option<&impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Names the operating system user who acts as the operator.
    pub(super) fn by_operator(mut self, name: &String) -> Self {
        let text = format!("{OPERATOR}{name}");
        match self.fields.iter_mut().find(|(field, _)| *field == "by") {
            Some((_, by)) if by == "operator" => *by = text,
            Some(_) => {}
            None => self.fields.push(("by", text)),
        }
        self
    }

    /// Says that a stranger caused it, such as one with a key that has ended.
    pub(super) fn of_stranger(self) -> Self {
        Self { is_of_stranger: true, ..self }
    }

    /// The operator who caused it, if it is known who that is, else the user; `None` for a stranger.
    pub(super) fn cause(&self) -> Option<&str> {
        let operator = self.get("by").filter(|by| by.starts_with(OPERATOR));
        operator.or_else(|| self.user()).filter(|_| !self.is_of_stranger)
    }

    /// The user whom it concerns.
    pub(super) fn user(&self) -> Option<&str> {
        self.get("user")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }

    /// Writes the line of the log.
    pub(super) fn log(&self) {
        macro_rules! log {
            ($level:ident: $($field:ident),*) => {
                tracing::$level!(
                    target: "audit",
                    event = self.event,
                    $($field = self.get(stringify!($field)),)*
                    "{}",
                    self.text
                )
            };
        }
        match self.weight {
            Weight::Usual => {
                log!(info: user, client, grant, key, ip, endpoint, scopes, error, reason, name, rights, kind, successor, server, invitation, by, count);
            }
            Weight::Alarming => {
                log!(warn: user, client, grant, key, ip, endpoint, scopes, error, reason, name, rights, kind, successor, server, invitation, by, count);
            }
        }
    }

    pub(super) fn row(&self, at: Timestamp, request: Option<&str>) -> AuditRow {
        let member = |(name, value): &(&'static str, String)| ((*name).to_owned(), Value::from(value.as_str()));
        let fields: Map<String, Value> = self.fields.iter().map(member).collect();
        AuditRow {
            at,
            event: self.event.to_owned(),
            user: self.user().map(storable),
            client: self.get("client").map(storable),
            request: request.map(storable),
            fields: Value::Object(fields).to_string(),
            count: 1,
        }
    }

    /// The row that counts several of them.
    pub(super) fn counted(&self, at: Timestamp, count: i64) -> AuditRow {
        AuditRow { count, ..self.row(at, None) }
    }
}

/// Removes the character that PostgreSQL cannot store in a text: a row that cannot be written would hold up all others.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
