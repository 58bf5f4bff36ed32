//! Finds the frames in the bytes of a WebSocket (RFC 6455 5.2), without judging them.

/// The longest head of a frame: two bytes, a length of eight, a mask of four.
const LONGEST_HEAD: usize = 14;
/// The end of an HTTP head.
const END_OF_RESPONSE: &[u8; 4] = b"\r\n\r\n";

/// Reads the heads of frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    position: FramePosition,
    /// True between the fragments of a message.
    is_fragmented: bool,
}

/// The part that the next byte belongs to.
#[derive(Debug)]
enum FramePosition {
    /// The response to the upgrade. This many bytes matched its end so far.
    Response(usize),
    /// The head of a frame, read so far.
    Head { bytes: [u8; LONGEST_HEAD], length: usize },
    /// A payload with this much still missing.
    Payload { missing: u64, kind: FrameKind },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Data,
    Control,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Number of control frames that began.
    pub(crate) control: u32,
    /// True if they contained a ping.
    pub(crate) ping: bool,
    pub(crate) data: usize,
    /// True if a message ended.
    pub(crate) ended: bool,
}

// === impl FrameReader ===

impl FrameReader {
    /// The bytes of a connection that was upgraded.
    pub(crate) const fn upgraded() -> Self {
        Self { position: FramePosition::HEAD, is_fragmented: false }
    }

    /// The bytes of a connection that begins with the response to the upgrade.
    pub(crate) const fn upgrading() -> Self {
        Self { position: FramePosition::Response(0), is_fragmented: false }
    }

    /// The contents of these bytes, which follow the earlier ones.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Seen {
        let mut seen = Seen::default();
        while let Some((&first, rest)) = bytes.split_first() {
            match &mut self.position {
                FramePosition::Response(matched) => {
                    bytes = rest;
                    *matched = match END_OF_RESPONSE.get(*matched) {
                        Some(expected) if *expected == first => *matched + 1,
                        _ => usize::from(first == b'\r'),
                    };
                    if *matched == END_OF_RESPONSE.len() {
                        self.position = FramePosition::HEAD;
                    }
                }
                FramePosition::Head { bytes: head, length } => {
                    bytes = rest;
                    if let Some(next) = head.get_mut(*length) {
                        *next = first;
                    }
                    *length += 1;
                    if let Some(missing) = payload_length(head, *length) {
                        let first = head[0];
                        self.begin(first, missing, &mut seen);
                    }
                }
                FramePosition::Payload { missing, kind } => {
                    let taken = usize::try_from(*missing).map_or(bytes.len(), |missing| missing.min(bytes.len()));
                    *missing -= taken as u64;
                    if *kind == FrameKind::Data {
                        seen.data += taken;
                    }
                    bytes = bytes.get(taken..).unwrap_or_default();
                    if *missing == 0 {
                        let kind = *kind;
                        self.end(kind, &mut seen);
                    }
                }
            }
        }
        seen
    }

    /// Begins a frame with this first byte.
    fn begin(&mut self, first: u8, missing: u64, seen: &mut Seen) {
        let opcode = first & 0x0f;
        let kind = if opcode & 0x08 == 0 { FrameKind::Data } else { FrameKind::Control };
        match kind {
            FrameKind::Data => self.is_fragmented = first & 0x80 == 0,
            FrameKind::Control => {
                seen.control = seen.control.saturating_add(1);
                seen.ping |= opcode == 0x09;
            }
        }
        self.position = FramePosition::Payload { missing, kind };
        if missing == 0 {
            self.end(kind, seen);
        }
    }

    fn end(&mut self, kind: FrameKind, seen: &mut Seen) {
        seen.ended |= kind == FrameKind::Data && !self.is_fragmented;
        self.position = FramePosition::HEAD;
    }

    /// True within a message or a frame.
    pub(crate) const fn is_unfinished(&self) -> bool {
        match self.position {
            FramePosition::Response(_) => false,
            FramePosition::Head { length, .. } => self.is_fragmented || length > 0,
            FramePosition::Payload { .. } => true,
        }
    }
}

impl FramePosition {
    const HEAD: Self = Self::Head { bytes: [0; LONGEST_HEAD], length: 0 };
}

/// The length of the payload after the head of a frame; `None` if the head is longer than the `length` bytes so far.
fn payload_length(head: &[u8; LONGEST_HEAD], length: usize) -> Option<u64> {
    let (short, mask) = (head[1] & 0x7f, if head[1] & 0x80 == 0 { 0 } else { 4 });
    let extended = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    if length < 2 || length < 2 + extended + mask {
        return None;
    }
    if extended == 0 {
        return Some(short.into());
    }
    Some(head[2..2 + extended].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ping without content and with a mask of zeros.
    const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
    /// The first fragment of a text, with one character.
    const FRAGMENT: [u8; 7] = [0x01, 0x81, 0, 0, 0, 0, b'a'];

    #[test]
    fn frames_are_found_in_any_pieces() {
        let response = b"HTTP/1.1 101 Switching Protocols\r\nx: \r\r\n\r\n";
        let mut bytes = response.to_vec();
        bytes.extend(PING);
        bytes.extend(FRAGMENT);
        bytes.extend([0x8a, 0x02, b'x', b'y']);
        bytes.extend([0x80, 0xfe, 0x01, 0x00, 0, 0, 0, 0]);
        bytes.extend([b'b'; 256]);
        bytes.extend([0x81, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
        bytes.extend(vec![b'c'; 65536]);
        for size in [1, 2, 3, 7, 1000, bytes.len()] {
            let mut frames = FrameReader::upgrading();
            let (mut control, mut data, mut ended) = (0, 0, false);
            for piece in bytes.chunks(size) {
                let seen = frames.feed(piece);
                control += seen.control;
                data += seen.data;
                ended |= seen.ended;
            }
            assert_eq!((control, data, ended), (2, 1 + 256 + 65536, true), "{size}");
            assert!(!frames.is_unfinished());
        }
    }
}
