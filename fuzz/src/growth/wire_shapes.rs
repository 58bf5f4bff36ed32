//! Bytes of the wire that grow. Knows no function.

use super::Shape;

fn repeat(size: usize, start: &str, piece: &str, end: &str) -> Vec<u8> {
    let count = size.saturating_sub(start.len() + end.len()) / piece.len();
    format!("{start}{}{end}", piece.repeat(count.max(1))).into_bytes()
}

/// Frames of a WebSocket.
fn frames(size: usize, frame: &[u8]) -> Vec<u8> {
    frame.repeat((size / frame.len()).max(1))
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $list:ident: $($name:literal = $make:expr),* $(,)?;)*) => {
        $($(#[$doc])* pub(super) const $list: &[Shape] = &[$(Shape { name: $name, make: $make }),*];)*
    };
}

shapes! {
    /// Streams of events.
    EVENTS:
        "one long line of data" = |size| repeat(size, "data: ", "x", "\n\n"),
        "short lines of data" = |size| repeat(size, "", "data:\n", "\n"),
        "short events" = |size| repeat(size, "", "data:a\n\n", ""),
        "comments" = |size| repeat(size, "", ": \n\n", "data: x\n\n"),
        "one long comment" = |size| repeat(size, ":", "x", "\n\ndata: x\n\n"),
        "line ends" = |size| repeat(size, "data: x", "\r", ""),
        "unknown fields" = |size| repeat(size, "", "x:y\n", "data: x\n\n"),
        "ids" = |size| repeat(size, "", "id: 1\n", "data: x\n\n"),
        "an event that does not end" = |size| repeat(size, "data: ", "x", ""),
        "a long name of a field" = |size| repeat(size, "", "x", ": y\n\n");
    /// Lines.
    LINES:
        "one long line" = |size| repeat(size, "{", "x", "}\n"),
        "short lines" = |size| repeat(size, "", "1\n", ""),
        "empty lines" = |size| repeat(size, "", "\n", "1\n"),
        "lines of white space" = |size| repeat(size, "", " \t\r\n", "1\n"),
        "a line that does not end" = |size| repeat(size, "", "x", "");
    /// Bytes of a WebSocket.
    FRAMES:
        "empty frames" = |size| frames(size, &[0x01, 0x80, 0, 0, 0, 0]),
        "pings" = |size| frames(size, &[0x89, 0x80, 0, 0, 0, 0]),
        "messages of one byte" = |size| frames(size, &[0x81, 0x81, 0, 0, 0, 0, b'x']),
        "one long frame" = |size| [&[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], &vec![b'x'; size]].concat();
    /// Responses over HTTP/1.
    RESPONSES:
        "a long body" = |size| repeat(size, &format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n"), "x", &"x".repeat(64)),
        "chunks of one byte" = |size| repeat(size, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n", "0\r\n\r\n"),
        "a body up to the end" = |size| repeat(size, "HTTP/1.0 200 OK\r\n\r\n", "x", ""),
        "long extensions of chunks" = |size| repeat(size, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", "x", "\r\nx\r\n0\r\n\r\n"),
        "headers" = |size| repeat(size, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", "a: b\r\n", "\r\n"),
        "a long header" = |size| repeat(size, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: ", "x", "\r\n\r\n"),
        "interim responses" = |size| repeat(size, "", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        "trailers" = |size| repeat(size, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "a: b\r\n", "\r\n");
    /// Challenges.
    CHALLENGES:
        "parameters" = |size| repeat(size, "Bearer ", "scope=a,", "error=b"),
        "schemes" = |size| repeat(size, "", "Bearer,", "Bearer scope=a"),
        "other schemes" = |size| repeat(size, "", "Basic,", "Bearer scope=a"),
        "schemes in quotes" = |size| repeat(size, "Basic realm=\"", ",bearer x ", "\", Bearer scope=a"),
        "one long value" = |size| repeat(size, "Bearer scope=\"", "\\x", "\""),
        "quotes" = |size| repeat(size, "Bearer a=", "\"", "");
    /// Hops of proxies.
    HOPS:
        "hops" = |size| repeat(size, "", "10.0.0.1,", "10.0.0.2"),
        "empty hops" = |size| repeat(size, "", ",", "10.0.0.1"),
        "one long hop" = |size| repeat(size, "", "1", "");
    /// Cookies.
    COOKIES:
        "cookies" = |size| repeat(size, "", "a=b;", "a=b"),
        "cookies of a login" = |size| repeat(size, "", "__Host-lockkeeper-login-abc-0=x;", "a=b"),
        "a long cookie" = |size| repeat(size, "__Host-lockkeeper-login-abc-0=", "x", "");
    /// Documents of clients.
    DOCUMENTS:
        "redirect URIs" = |size| repeat(size, r#"{"client_id":"https://app.example/client.json","client_name":"a","redirect_uris":["#, r#""https://a.example/","#, r#""https://a.example/"]}"#),
        "keys" = |size| repeat(size, r#"{"client_id":"https://app.example/client.json","client_name":"a","redirect_uris":["https://a.example/"],"jwks":{"keys":["#, "{},", "{}]}}"),
        "a long name" = |size| repeat(size, r#"{"client_id":"https://app.example/client.json","redirect_uris":["https://a.example/"],"client_name":""#, "\\u200b", r#"a"}"#),
        "unknown members" = |size| repeat(size, r#"{"client_id":"https://app.example/client.json","client_name":"a","redirect_uris":["https://a.example/"]"#, r#","x":{}"#, "}");
    /// Bytes of any meaning.
    BYTES:
        "zeros" = |size| vec![0; size],
        "letters" = |size| vec![b'x'; size],
        "letters beyond ASCII" = |size| "\u{e9}".repeat(size / 2).into_bytes();
}
