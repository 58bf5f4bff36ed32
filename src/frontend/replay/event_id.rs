//! Event ids: stream and position (2025-03-26 to 2025-11-25, transports, *Resumability and Redelivery*).

use std::fmt;

/// Prefix of the event ids of one session in one process, so that none resumes a stream of another session or process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventIdPrefix(String);

/// A stream of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamId {
    /// The answer to a POST.
    Call(u64),
    /// A standalone stream.
    Standalone(u64),
}

/// Id of one event: its stream, and its number there. The number 0 precedes the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    /// The stream.
    pub(crate) stream: StreamId,
    /// Increases with each event.
    pub(crate) number: u64,
}

impl EventIdPrefix {
    /// Creates a prefix.
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }

    /// Formats an id.
    pub(crate) fn write(&self, id: EventId) -> String {
        format!("{}-{}-{}", self.0, id.stream, id.number)
    }

    /// Parses an id; `None` if it has another prefix or is malformed.
    pub(crate) fn read(&self, text: &str) -> Option<EventId> {
        let (stream, number) = text.strip_prefix(&self.0)?.strip_prefix('-')?.split_once('-')?;
        let stream = match stream.split_at_checked(1)? {
            ("c", serial) => StreamId::Call(serial.parse().ok()?),
            ("s", serial) => StreamId::Standalone(serial.parse().ok()?),
            _ => return None,
        };
        Some(EventId { stream, number: number.parse().ok()? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(serial) => write!(f, "c{serial}"),
            Self::Standalone(serial) => write!(f, "s{serial}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_id_is_valid_only_in_its_session_and_process() {
        let (prefix, other) = (EventIdPrefix::new("a1".to_owned()), EventIdPrefix::new("a".to_owned()));
        for stream in [StreamId::Call(0), StreamId::Standalone(u64::MAX)] {
            let id = EventId { stream, number: 7 };
            assert_eq!(prefix.read(&prefix.write(id)), Some(id));
            assert_eq!(other.read(&prefix.write(id)), None);
        }
    }

    proptest! {
        #[test]
        fn invented_event_ids_are_invalid(text in "\\PC{0,20}") {
            let prefix = EventIdPrefix::new("a1b2c3d4".to_owned());
            prop_assert_eq!(prefix.read(&text), None);
            let read = prefix.read(&format!("a1b2c3d4-{text}"));
            prop_assert!(read.is_none_or(|id| prefix.read(&prefix.write(id)) == Some(id)));
        }
    }
}
