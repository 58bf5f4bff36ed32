//! Places of the members of an object, so that members are looked up without reading the text again. Knows nothing of MCP.

use std::{cmp::Ordering, ops::Range};

use super::{Found, name_of, scan::Members, span};

/// Members that an index holds at most; an object with more is read for each look-up.
const MAX_MEMBERS: usize = 6;

/// Places of the members of one object in its text.
#[derive(Debug)]
pub struct MemberIndex {
    members: [MemberPlace; MAX_MEMBERS],
    len: usize,
}

/// Place of one member, in bytes from the start of the text.
#[derive(Debug, Clone, Copy, Default)]
struct MemberPlace {
    /// The name, with its quotes.
    name: (u32, u32),
    value: (u32, u32),
}

// === impl MemberIndex ===

impl MemberIndex {
    /// Reads the places of the members of `text`, which must be valid JSON; `None` if they are too many for an index.
    pub fn of(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut index = Self { members: [MemberPlace::default(); MAX_MEMBERS], len: 0 };
        for (name, value) in Members::of(text) {
            *index.members.get_mut(index.len)? = MemberPlace { name: place(text, name)?, value: place(text, value)? };
            index.len += 1;
        }
        Some(index)
    }

    /// The text of the member `key`, the last one if the name is repeated, as JavaScript reads it. `text` is that of the index.
    pub fn get<'a>(&self, text: &'a [u8], key: &str) -> Option<&'a str> {
        let found = self.members[..self.len].iter().rfind(|place| place.is_named(text, key))?;
        std::str::from_utf8(text.get(range(found.value))?).ok()
    }

    /// The index of the text in which the value at `range` is replaced by one of `len` bytes.
    pub fn after_edit(&self, range: &Range<usize>, len: usize) -> Option<Self> {
        let (start, end) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
        let len = u32::try_from(len).ok()?;
        let moved = |at: u32| match at.checked_sub(end) {
            Some(after) => start.checked_add(len)?.checked_add(after),
            None => Some(at).filter(|at| *at <= start),
        };
        let mut edited = Self { members: self.members, len: self.len };
        for MemberPlace { name, value } in edited.members.iter_mut().take(self.len) {
            *name = (moved(name.0)?, moved(name.1)?);
            *value = (moved(value.0)?, moved(value.1)?);
        }
        Some(edited)
    }

    /// The places of all members of this name. `text` is that of the index.
    pub fn find(&self, text: &[u8], key: &str) -> Found {
        let named = self.members[..self.len].iter().filter(|place| place.is_named(text, key));
        Found(named.map(|place| range(place.value)).collect())
    }
}

impl MemberPlace {
    fn is_named(&self, text: &[u8], key: &str) -> bool {
        let Some(written) = text.get(range(self.name)) else { return false };
        // escapes are longer than what they stand for
        match written.len().cmp(&(key.len() + 2)) {
            Ordering::Less => false,
            Ordering::Equal => written[1..].starts_with(key.as_bytes()),
            Ordering::Greater => {
                written.contains(&b'\\') && std::str::from_utf8(written).is_ok_and(|name| name_of(name) == key)
            }
        }
    }
}

fn place(text: &str, part: &str) -> Option<(u32, u32)> {
    let Range { start, end } = span(text, part);
    Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

const fn range((start, end): (u32, u32)) -> Range<usize> {
    start as usize..end as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::{At, member};

    #[test]
    fn an_index_finds_what_a_scan_finds() {
        let text = br#" { "a" : [1,{"b":2}] , "n\u0061me":"x", "name" : "y", "":null, "c\"":{} }"#;
        let index = MemberIndex::of(text).unwrap();
        for key in ["a", "b", "name", "", "c\"", "c"] {
            assert_eq!(index.get(text, key), member(text, key), "{key}");
        }
        assert_eq!(index.get(text, "name"), Some("\"y\""));
        assert_eq!((index.find(text, "name").len(), Found::at(text, &[At::Key("name")]).len()), (2, 2));
    }

    #[test]
    fn an_index_follows_an_edit() {
        let text = br#"{"a":1,"name":"demo__add" , "b":{"name":2},"":""}"#;
        for value in ["\"add\"", "\"a far longer name than it was before\"", "0"] {
            let found = Found::at(text, &[At::Key("name")]);
            let edited = found.clone().replace(&bytes::Bytes::from_static(text), value);
            let index = MemberIndex::of(text).unwrap().after_edit(found.only().unwrap(), value.len()).unwrap();
            for key in ["a", "name", "b", "", "c"] {
                assert_eq!(index.get(&edited, key), member(&edited, key), "{key} in {edited:?}");
            }
        }
    }

    #[test]
    fn an_object_with_many_members_has_no_index() {
        let object = |members: usize| {
            let members: Vec<String> = (0..members).map(|at| format!("\"{at}\":{at}")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert_eq!(
            MemberIndex::of(object(MAX_MEMBERS).as_bytes()).unwrap().get(object(MAX_MEMBERS).as_bytes(), "5"),
            Some("5")
        );
        assert!(MemberIndex::of(object(MAX_MEMBERS + 1).as_bytes()).is_none());
        assert_eq!(MemberIndex::of(b"").unwrap().get(b"", "a"), None);
        assert_eq!(MemberIndex::of(b"[1]").unwrap().get(b"[1]", "a"), None);
    }
}
