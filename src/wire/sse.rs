//! Encoder of server-sent events (WHATWG HTML 9.2).

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

/// The media type.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// The comment that keeps idle streams alive; parsers ignore it.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": \n\n");

/// An event of the type `message`. The type is the default, but some clients need the name.
pub fn message(data: &[u8]) -> Bytes {
    event("message", data)
}

/// An event of the type `message` with an id for resumption. The id must not contain line ends and NUL.
pub fn numbered(id: &str, data: &[u8]) -> Bytes {
    let message = message(data);
    let mut text = BytesMut::with_capacity(message.len() + id.len() + 5);
    text.put_slice(b"id: ");
    text.put_slice(id.as_bytes());
    text.put_u8(b'\n');
    text.put_slice(&message);
    text.freeze()
}

/// An event without data, with the id and the delay for resumption (2025-11-25, transports).
pub fn priming(id: &str, retry: Duration) -> Bytes {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}

/// One event. Line ends in `data` start a new `data` field; in JSON they occur only between values, so the decoded
/// value is the same.
pub fn event(name: &str, data: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(data.len() + name.len() + 20);
    text.put_slice(b"event: ");
    text.put_slice(name.as_bytes());
    text.put_u8(b'\n');
    for line in data.split(|byte| *byte == b'\n' || *byte == b'\r') {
        text.put_slice(b"data: ");
        text.put_slice(line);
        text.put_u8(b'\n');
    }
    text.put_u8(b'\n');
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_in_the_data_do_not_end_the_event() {
        assert_eq!(message(b"{\"a\":\r\n1}"), "event: message\ndata: {\"a\":\ndata: \ndata: 1}\n\n");
        assert_eq!(numbered("m-c1-2", b"{}"), "id: m-c1-2\nevent: message\ndata: {}\n\n");
        assert_eq!(priming("m-c1-0", Duration::from_secs(1)), "id: m-c1-0\nretry: 1000\ndata: \n\n");
        assert_eq!(event("endpoint", b"/messages"), "event: endpoint\ndata: /messages\n\n");
    }
}
