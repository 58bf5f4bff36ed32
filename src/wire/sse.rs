//! Writing server-sent events (WHATWG HTML 9.2). Knows nothing of what the events say.

use bytes::{BufMut as _, Bytes, BytesMut};

/// The media type.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// The comment that keeps idle streams alive; parsers pass it over.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": \n\n");

/// One event of the type `message`, which is the default and named all the same: some clients look for the name.
pub fn message(data: &[u8]) -> Bytes {
    event("message", data)
}

/// One event. Line ends inside `data` begin a new `data` field each; in JSON they stand only between values, so that
/// the value read is the same.
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
        assert_eq!(event("endpoint", b"/messages"), "event: endpoint\ndata: /messages\n\n");
    }
}
