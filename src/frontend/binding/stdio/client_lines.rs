//! Reads a client's lines from standard input, up to a maximum length.

use std::{future::ready, io};

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memchr;
use tokio::io::AsyncRead;
use tokio_util::codec::{Decoder, FramedRead};

use crate::{
    frontend::binding::{channel::ChannelInput, refusal::RequestRefusal},
    wire::lines::{LineError, Lines},
};

/// The byte order mark, which some programs write first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decoder of the client's lines. Skips lines that are too long.
struct ClientLines {
    lines: Lines,
    max: usize,
    position: LinePosition,
}

/// Position of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    Start,
    Line,
    /// A line that was refused.
    Refused,
}

enum ClientLine {
    Message(Bytes),
    TooLong,
}

/// The lines of the client, of at most `max` bytes. A read error ends them.
pub(super) fn client_lines(input: impl AsyncRead + Unpin, max: usize) -> impl Stream<Item = ChannelInput> + Unpin {
    let lines = FramedRead::new(input, ClientLines::new(max)).take_while(|line| ready(line.is_ok()));
    lines.filter_map(move |line| {
        ready(line.ok().map(|line| match line {
            ClientLine::Message(text) => ChannelInput::Message(text),
            ClientLine::TooLong => ChannelInput::Refused(RequestRefusal::too_large(max)),
        }))
    })
}

// === impl ClientLines ===

impl ClientLines {
    const fn new(max: usize) -> Self {
        Self { lines: Lines::new(max), max, position: LinePosition::Start }
    }

    /// Refuses the line at the start of the buffer.
    fn refuse(&mut self, buffer: &mut BytesMut) -> ClientLine {
        (self.lines, self.position) = (Lines::new(self.max), LinePosition::Refused);
        self.skip(buffer);
        ClientLine::TooLong
    }

    /// Skips the rest of a refused line.
    fn skip(&mut self, buffer: &mut BytesMut) {
        match memchr(b'\n', buffer) {
            Some(end) => {
                buffer.advance(end + 1);
                self.position = LinePosition::Line;
            }
            None => buffer.clear(),
        }
    }
}

impl Decoder for ClientLines {
    type Item = ClientLine;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<ClientLine>> {
        if self.position == LinePosition::Refused {
            self.skip(buffer);
        }
        if self.position == LinePosition::Start {
            if buffer.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(buffer) {
                return Ok(None);
            }
            if buffer.starts_with(BYTE_ORDER_MARK) {
                buffer.advance(BYTE_ORDER_MARK.len());
            }
            self.position = LinePosition::Line;
        }
        match self.lines.decode(buffer) {
            Ok(line) => Ok(line.map(ClientLine::Message)),
            Err(LineError::TooLong(_) | LineError::Exhausted(_)) => Ok(Some(self.refuse(buffer))),
            Err(LineError::Io(error)) => Err(error),
        }
    }

    /// Accepts a last line without a line end.
    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<ClientLine>> {
        if let Some(line) = self.decode(buffer)? {
            return Ok(Some(line));
        }
        match self.lines.decode_eof(buffer) {
            Ok(line) => Ok(line.map(ClientLine::Message)),
            Err(LineError::TooLong(_) | LineError::Exhausted(_)) => Ok(Some(self.refuse(buffer))),
            Err(LineError::Io(error)) => Err(error),
        }
    }
}
