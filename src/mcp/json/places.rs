//! Positions of the members or elements of an object or array in its text, with the white space around them.

use std::ops::Range;

use super::{
    quote,
    scan::{Elements, Members},
    span,
};

/// Kind of a JSON value with items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    /// The items are members.
    Object,
    /// The items are elements.
    Array,
}

/// Position of an item in the text of its container. A hostile text may have an item for every two bytes, so this is
/// small.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ItemPlace {
    start: u32,
    /// End of the name; for an element, its start.
    name: u32,
    value: (u32, u32),
    end: u32,
}

// === impl Container ===

impl Container {
    /// The kind of a JSON text without white space around it; `None` for other values.
    pub(super) const fn of(text: &str) -> Option<Self> {
        match text.as_bytes() {
            [b'{', .., b'}'] => Some(Self::Object),
            [b'[', .., b']'] => Some(Self::Array),
            _ => None,
        }
    }

    pub(super) const fn closing(self) -> char {
        match self {
            Self::Object => '}',
            Self::Array => ']',
        }
    }
}

// === impl ItemPlace ===

impl ItemPlace {
    /// The item with the white space around it.
    pub(super) const fn whole(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The name with its quotes, after white space.
    pub(super) const fn name(self) -> Range<usize> {
        self.start as usize..self.name as usize
    }

    /// The text before the value: white space, and in an object the name and the colon.
    pub(super) const fn head(self) -> Range<usize> {
        self.start as usize..self.value.0 as usize
    }

    pub(super) const fn value(self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }

    /// The white space after the value.
    pub(super) const fn tail(self) -> Range<usize> {
        self.value.1 as usize..self.end as usize
    }
}

/// Calls `take` with the position of each item in a container, in order. For invalid JSON it passes some items, then
/// ends.
pub(super) fn each_place(text: &str, kind: Container, mut take: impl FnMut(ItemPlace)) {
    // the item whose end is unknown so far, and the start of the text before the next value
    let (mut pending, mut at): (Option<ItemPlace>, usize) = (None, 1);
    let mut add = |name: Option<&str>, value: &str| {
        let value = span(text, value);
        if let Some(before) = pending {
            let Some(comma) = text[at..value.start].bytes().position(|byte| byte == b',') else { return false };
            take(ItemPlace { end: offset(at + comma), ..before });
            at += comma + 1;
        }
        let name = name.map_or(at, |name| span(text, name).end);
        pending = Some(ItemPlace {
            start: offset(at),
            name: offset(name),
            value: (offset(value.start), offset(value.end)),
            end: 0,
        });
        at = value.end;
        true
    };
    let _is_json = match kind {
        Container::Object => Members::of(text).all(|(name, value)| add(Some(name), value)),
        Container::Array => Elements::of(text).all(|value| add(None, value)),
    };
    if let Some(last) = pending {
        take(ItemPlace { end: last.value.1.max(offset(text.len() - 1)), ..last });
    }
}

/// The name in the text before a member's value, with its quotes.
pub(super) fn written_name(head: &str) -> &str {
    let head = head.trim_ascii();
    head.strip_suffix(':').map_or(head, str::trim_ascii_end)
}

/// The text before the value of a new member.
pub(super) fn head_of(key: &str) -> String {
    let mut head = quote(key);
    head.push(':');
    head
}

/// Converts a position in a text, which is never longer than the largest message.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("no message is longer than 1 GiB")
}
