//! The frames in the bytes of a WebSocket, in all splits, against a plain reader of RFC 6455 5.2, and against the library that
//! reads the messages. Input: flags, and bytes.

use std::io::Cursor;

use lockkeeper::fuzzing::{FramesSeen, WebSocketBytes};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{Role, WebSocket},
};

use super::input::{Dice, splits};

/// The bytes that were read, as far as they go.
#[derive(Debug, Default, PartialEq)]
struct Read {
    control: u32,
    pings: u32,
    data: usize,
    messages: u32,
    is_unfinished: bool,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let is_upgraded = dice.flips();
    let bytes = dice.rest();
    let frames = if is_upgraded { Some(bytes) } else { after_response(bytes) };
    let expected = frames.map(plain).unwrap_or_default();
    splits(bytes, |pieces| {
        let mut reader = if is_upgraded { WebSocketBytes::upgraded() } else { WebSocketBytes::upgrading() };
        let seen: Vec<FramesSeen> = pieces.iter().map(|piece| reader.feed(piece)).collect();
        assert_eq!(seen.iter().map(|seen| seen.control).sum::<u32>(), expected.control, "{bytes:?} in {pieces:?}");
        assert_eq!(seen.iter().any(|seen| seen.ping), expected.pings > 0, "{bytes:?} in {pieces:?}");
        assert_eq!(seen.iter().map(|seen| seen.data).sum::<usize>(), expected.data, "{bytes:?} in {pieces:?}");
        assert_eq!(seen.iter().any(|seen| seen.ended), expected.messages > 0, "{bytes:?} in {pieces:?}");
        assert_eq!(reader.is_unfinished(), expected.is_unfinished, "{bytes:?} in {pieces:?}");
        if pieces.len() == bytes.len() {
            let ended = u32::try_from(seen.iter().filter(|seen| seen.ended).count()).unwrap_or_default();
            assert_eq!(ended, expected.messages, "{bytes:?}");
        }
    });
    if let Some(frames) = frames {
        by_library(frames, &expected);
    }
}

/// Frames like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    let text = [&[1, 0x81, 0x82, 1, 2, 3, 4][..], &[b'{' ^ 1, b'}' ^ 2]].concat();
    let fragments = [&[1, 0x01, 0x81, 0, 0, 0, 0, b'a'][..], &ping, &[0x80, 0xfe, 0, 1, 0, 0, 0, 0, b'b']].concat();
    let long = [&[1, 0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], b"x"].concat();
    let response = [&b"\x00HTTP/1.1 101 x\r\na: \r\r\n\r\n"[..], &[0x81, 0x01, b'x']].concat();
    vec![text, fragments, long, response]
}

/// What follows the head of a response.
fn after_response(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(&bytes[end + 4..])
}

fn plain(bytes: &[u8]) -> Read {
    let (mut read, mut rest, mut is_fragmented) = (Read::default(), bytes, false);
    loop {
        read.is_unfinished = is_fragmented || !rest.is_empty();
        let [first, second, after @ ..] = rest else { return read };
        let (length, after) = match second & 0x7f {
            126 => match after.split_first_chunk::<2>() {
                Some((length, after)) => (u64::from(u16::from_be_bytes(*length)), after),
                None => return read,
            },
            127 => match after.split_first_chunk::<8>() {
                Some((length, after)) => (u64::from_be_bytes(*length), after),
                None => return read,
            },
            short => (u64::from(short), after),
        };
        let Some(payload) = after.get(usize::from(second >> 7) * 4..) else { return read };
        let is_control = first & 0x08 != 0;
        let taken = usize::try_from(length).unwrap_or(usize::MAX).min(payload.len());
        if is_control {
            read.control += 1;
            read.pings += u32::from(first & 0x0f == 9);
        } else {
            read.data += taken;
            is_fragmented = first & 0x80 == 0;
        }
        if (taken as u64) < length {
            read.is_unfinished = true;
            return read;
        }
        read.messages += u32::from(!is_control && !is_fragmented);
        rest = &payload[taken..];
    }
}

/// The library reads no message that is not seen here.
fn by_library(frames: &[u8], expected: &Read) {
    let config = lockkeeper::wire::websocket::config(1 << 20);
    let stream = Cursor::new(Vec::new());
    let mut socket = WebSocket::from_partially_read(stream, frames.to_vec(), Role::Server, Some(config));
    let (mut messages, mut bytes, mut control) = (0, 0, 0);
    // the stream has no more than these bytes: an error ends the loop
    while let Ok(message) = socket.read() {
        match message {
            Message::Text(text) => (messages, bytes) = (messages + 1, bytes + text.len()),
            Message::Binary(data) => (messages, bytes) = (messages + 1, bytes + data.len()),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => control += 1,
        }
    }
    assert!(messages <= expected.messages && bytes <= expected.data && control <= expected.control, "{frames:?}");
}
