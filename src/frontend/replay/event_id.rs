//! Event ids: a stream and a position in it (2025-03-26 to 2025-11-25, transports, *Resumability and Redelivery*).

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::mcp::RequestId;

/// Maximum size in bytes of a request's id inside event ids.
const MAX_CARRIED_ID: usize = 128;

/// Prefix of the event ids of one session in one process: eight hexadecimal digits. So no id resumes a stream of
/// another session or process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventIdPrefix(String);

/// The stream with the answer to a POST, as event ids name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallStream {
    serial: u64,
    /// The request's id in base64url. With it, a client that comes back after the call was forgotten still learns how
    /// the call ended. Empty for a batch, and for an id that is too long.
    request: Arc<str>,
}

/// The event after which a client continues. Number 0 comes before the first event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LastEvent {
    /// An event of the standalone stream with this serial.
    Standalone { serial: u64, number: u64 },
    /// An event of the answer with this serial.
    Answer { serial: u64, number: u64, request: Option<RequestId> },
    /// An event of an answer that another process or another session began.
    ForeignAnswer { request: Option<RequestId> },
}

// === impl EventIdPrefix ===

impl EventIdPrefix {
    pub(crate) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The id of an event of a standalone stream.
    pub(crate) fn standalone(&self, serial: u64, number: u64) -> String {
        format!("{}-s{serial}-{number}", self.0)
    }

    /// The id of an event of an answer.
    pub(crate) fn answer(&self, stream: &CallStream, number: u64) -> String {
        let (CallStream { serial, request }, prefix) = (stream, &self.0);
        if request.is_empty() {
            format!("{prefix}-c{serial}-{number}")
        } else {
            format!("{prefix}-c{serial}-{number}-{request}")
        }
    }

    /// Parses an id; `None` if it is malformed, or names a standalone stream of another session or process.
    pub(crate) fn read(&self, text: &str) -> Option<LastEvent> {
        let mut parts = text.splitn(4, '-');
        let (prefix, stream, number, request) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
        let number = number.parse().ok()?;
        let (kind, serial) = stream.split_at_checked(1)?;
        let serial = serial.parse().ok()?;
        match kind {
            "s" if prefix == self.0 && request.is_none() => Some(LastEvent::Standalone { serial, number }),
            "c" if prefix == self.0 => Some(LastEvent::Answer { serial, number, request: carried(request) }),
            "c" if is_prefix(prefix) => Some(LastEvent::ForeignAnswer { request: carried(request) }),
            _ => None,
        }
    }
}

fn is_prefix(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn carried(text: Option<&str>) -> Option<RequestId> {
    let text = text.filter(|text| text.len() <= base64::encoded_len(MAX_CARRIED_ID, false).unwrap_or_default())?;
    RequestId::read(&URL_SAFE_NO_PAD.decode(text).ok()?.into())
}

// === impl CallStream ===

impl CallStream {
    /// The stream with this serial in its session, of the answer to this request.
    pub(crate) fn new(serial: u64, request: Option<&RequestId>) -> Self {
        let id = request.map(RequestId::json).filter(|id| id.len() <= MAX_CARRIED_ID);
        Self { serial, request: id.map(|id| URL_SAFE_NO_PAD.encode(id)).unwrap_or_default().into() }
    }

    /// A finished stream of which nothing is kept, and with no client to inform.
    pub(crate) fn over() -> Self {
        Self::new(0, None)
    }

    /// Its serial in the session, from 1.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix() -> EventIdPrefix {
        EventIdPrefix::new("a1b2c3d4".to_owned())
    }

    #[test]
    fn an_event_id_is_resumed_only_in_its_session_and_process() {
        let (prefix, other) = (prefix(), EventIdPrefix::new("a1b2c3d5".to_owned()));
        let standalone = prefix.standalone(u64::MAX, 7);
        assert_eq!(prefix.read(&standalone), Some(LastEvent::Standalone { serial: u64::MAX, number: 7 }));
        assert_eq!(other.read(&standalone), None);
        for request in [None, Some(RequestId::number(1)), Some(RequestId::string("a-b?>\u{fc}"))] {
            let answer = prefix.answer(&CallStream::new(3, request.as_ref()), 7);
            let here = LastEvent::Answer { serial: 3, number: 7, request: request.clone() };
            assert_eq!(prefix.read(&answer), Some(here), "{answer}");
            assert_eq!(other.read(&answer), Some(LastEvent::ForeignAnswer { request }), "{answer}");
        }
    }

    #[test]
    fn a_long_id_of_a_request_is_not_carried() {
        let carried = |length| CallStream::new(1, Some(&RequestId::string(&"x".repeat(length)))).request.len();
        assert_eq!((carried(MAX_CARRIED_ID - 2), carried(MAX_CARRIED_ID - 1)), (171, 0));
        let long = URL_SAFE_NO_PAD.encode(format!("\"{}\"", "x".repeat(1000)));
        let read = prefix().read(&format!("a1b2c3d4-c1-0-{long}"));
        assert_eq!(read, Some(LastEvent::Answer { serial: 1, number: 0, request: None }), "nor read");
    }

    proptest! {
        #[test]
        fn invented_event_ids_are_invalid(text in "\\PC{0,20}") {
            prop_assert_eq!(prefix().read(&text), None);
            let read = prefix().read(&format!("a1b2c3d4-{text}"));
            let is_answer = matches!(read, Some(LastEvent::Answer { .. }));
            prop_assert!(read.is_none() || is_answer == text.starts_with('c'));
        }
    }
}
