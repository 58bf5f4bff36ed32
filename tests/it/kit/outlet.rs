//! A server's output: to a channel, or as the answer to one HTTP request.

use std::io;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize as _;
use serde_json::{Serializer, Value, ser::Formatter};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// Maximum number of pieces waiting for their reader.
const CAPACITY: usize = 256;

/// The writing end.
#[derive(Debug, Clone)]
pub(crate) struct Outlet(mpsc::Sender<Piece>);

/// The written pieces.
pub(crate) type Pieces = mpsc::Receiver<Piece>;

#[derive(Debug)]
pub(crate) enum Piece {
    /// A whole line, or several that belong together.
    Line(Bytes),
    /// The last line for a request, with its status if it is the only one.
    Answer(Bytes, StatusCode),
    /// Bytes of an unfinished line.
    Part(Bytes),
    /// Raw bytes on a channel of lines or events.
    Raw(Bytes),
    /// A WebSocket frame other than text.
    Frame(Message),
}

/// The formatting that many servers use: with spaces, and only ASCII.
struct Spaced;

// === impl Outlet ===

impl Outlet {
    pub(crate) fn new() -> (Self, Pieces) {
        let (sender, pieces) = mpsc::channel(CAPACITY);
        (Self(sender), pieces)
    }

    /// Writes a message, adding its `jsonrpc`.
    pub(crate) async fn message(&self, message: Value) {
        self.write(Piece::Line(text(message))).await;
    }

    /// Writes a message unless others are waiting.
    pub(crate) fn message_now(&self, message: Value) {
        let _ = self.0.try_send(Piece::Line(text(message)));
    }

    /// Writes lines at once, unless too many are waiting; false if the client is gone.
    pub(crate) fn lines_now(&self, lines: String) -> bool {
        self.0.try_send(Piece::Line(lines.into())).is_ok()
    }

    /// True if the client is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }

    /// Writes the last message for a request.
    pub(crate) async fn answer(&self, message: Value, status: StatusCode) {
        self.write(Piece::Answer(text(message), status)).await;
    }

    /// Writes a piece; false if the client is gone.
    pub(crate) async fn write(&self, piece: Piece) -> bool {
        self.0.send(piece).await.is_ok()
    }
}

// === impl Piece ===

impl Piece {
    /// The bytes, and true if they end a line.
    pub(crate) fn into_bytes(self) -> (Bytes, bool) {
        match self {
            Self::Line(bytes) | Self::Answer(bytes, _) => (bytes, true),
            Self::Part(bytes) | Self::Raw(bytes) => (bytes, false),
            Self::Frame(frame) => panic!("no frames here: {frame}"),
        }
    }
}

// === impl Spaced ===

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        fragment.chars().try_for_each(|letter| {
            if letter.is_ascii() {
                return write!(writer, "{letter}");
            }
            letter.encode_utf16(&mut units).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))
        })
    }
}

/// The value with spaces, and only ASCII.
pub(crate) fn spaced(value: &Value) -> String {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn text(mut message: Value) -> Bytes {
    message["jsonrpc"] = "2.0".into();
    spaced(&message).into()
}
