//! Decisions from the bytes of an input, and other spellings of a JSON text. Knows nothing of the gateway.

use super::tree::{Spelled, Tree};

/// Decisions, one byte each; after the last, the first choice is taken.
#[derive(Debug, Clone)]
pub struct Dice<'a>(std::slice::Iter<'a, u8>);

/// A text of JSON that means the same, written otherwise.
pub struct Speller {
    state: u64,
}

// === impl Dice ===

impl<'a> Dice<'a> {
    /// Decisions from these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    /// One of the numbers below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of these.
    pub fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// True once in two.
    pub fn flips(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0.as_slice()
    }

    /// What is left up to the first line end, which is passed over; all of it if there is none.
    pub fn line(&mut self) -> &'a [u8] {
        let rest = self.0.as_slice();
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.0 = rest.get(end + 1..).unwrap_or_default().iter();
        &rest[..end]
    }
}

/// Splits `bytes` into pieces of lengths that follow from `seed`.
pub fn pieces(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut speller = Speller::new(seed);
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        let most = [1, 1, 2, 3, 7, 64, 1024][speller.below(7)];
        let (piece, after) = rest.split_at(1 + speller.below(most).min(rest.len() - 1));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The ways to split `bytes`: all of them for a short text; else every single cut, each byte by itself, and a few others.
pub fn splits(bytes: &[u8], mut read: impl FnMut(&[&[u8]])) {
    read(&[bytes]);
    read(&bytes.chunks(1).collect::<Vec<_>>());
    if bytes.len() <= 8 {
        for cuts in 0..1_u32 << bytes.len().saturating_sub(1) {
            let (mut parts, mut start) = (Vec::new(), 0);
            for end in 1..=bytes.len() {
                if end == bytes.len() || cuts & (1 << (end - 1)) != 0 {
                    parts.push(&bytes[start..end]);
                    start = end;
                }
            }
            read(&parts);
        }
    } else if bytes.len() <= 64 {
        (1..bytes.len()).for_each(|at| read(&[&bytes[..at], &bytes[at..]]));
    }
    (0..4).for_each(|seed| read(&pieces(bytes, seed)));
}

// === impl Speller ===

impl Speller {
    /// A speller whose choices follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// Xorshift: the same choices on every machine.
    pub fn below(&mut self, count: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or_default() % count.max(1)
    }

    /// Another text of the same value: other escapes, other white space, and members in another order where no name is
    /// repeated.
    pub fn respell(&mut self, tree: &Tree) -> String {
        let mut tree = tree.clone();
        self.reorder(&mut tree);
        let mut text = self.space();
        tree.write(&mut text, &mut |spelled| match spelled {
            Spelled::Space => self.space(),
            Spelled::Text(text) => self.string(text),
        });
        text + &self.space()
    }

    fn reorder(&mut self, tree: &mut Tree) {
        match tree {
            Tree::Array(elements) => elements.iter_mut().for_each(|element| self.reorder(element)),
            Tree::Object(members) => {
                members.0.iter_mut().for_each(|(_, value)| self.reorder(value));
                if members.last().len() == members.0.len() && !members.0.is_empty() {
                    let by = self.below(members.0.len());
                    members.0.rotate_left(by);
                }
            }
            Tree::Literal(_) | Tree::Text(_) => {}
        }
    }

    fn space(&mut self) -> String {
        ["", "", "", "", " ", "\n", "\t\r "][self.below(7)].to_owned()
    }

    fn string(&mut self, text: &str) -> String {
        let mut written = String::from("\"");
        for character in text.chars() {
            match character {
                _ if self.below(8) == 0 => {
                    let mut units = [0; 2];
                    for unit in character.encode_utf16(&mut units) {
                        let digits = format!("{unit:04x}");
                        written.push_str("\\u");
                        written.push_str(&if self.below(2) == 0 { digits } else { digits.to_uppercase() });
                    }
                }
                '/' if self.below(2) == 0 => written.push_str("\\/"),
                '"' => written.push_str("\\\""),
                '\\' => written.push_str("\\\\"),
                '\n' => written.push_str("\\n"),
                '\t' => written.push_str("\\t"),
                control if control < ' ' => written.extend(["\\u", &format!("{:04x}", u32::from(control))]),
                plain => written.push(plain),
            }
        }
        written.push('"');
        written
    }
}
