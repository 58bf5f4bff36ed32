//! Positions of the members of an object, and of the members of one of its members, so that lookups need not read the
//! text again.

use std::ops::Range;

use super::{Found, has_escape, is_named, name_of, scan::Members, span};

/// Maximum number of indexed members. An object with more is read again at each lookup.
const MAX_MEMBERS: usize = 6;
/// The same for the inner object.
const MAX_INNER: usize = 8;

/// Positions of the members of one object in its text.
#[derive(Debug, Clone)]
pub struct MemberIndex {
    outer: Places<MAX_MEMBERS>,
    /// Positions of the members of the inner object.
    inner: Places<MAX_INNER>,
}

#[derive(Debug, Clone)]
struct Places<const MAX: usize> {
    places: [MemberPlace; MAX],
    len: usize,
}

/// Position of one member, in bytes from the start of the text.
#[derive(Debug, Clone, Copy, Default)]
struct MemberPlace {
    /// The name, with its quotes.
    name: (u32, u32),
    /// True if the name has escapes.
    is_escaped: bool,
    value: (u32, u32),
}

// === impl MemberIndex ===

impl MemberIndex {
    /// Finds the members of `text`, which must be valid JSON, and the members of its member `inner`. `None` if there
    /// are too many.
    pub fn of(text: &str, inner: &str) -> Option<Self> {
        let mut index = Self { outer: Places::none(), inner: Places::none() };
        for (name, value) in Members::of(text) {
            index.outer.push(text, name, value)?;
            if is_named(name, inner) {
                index.inner = Places::of(text, value)?;
            }
        }
        Some(index)
    }

    /// The text of the member `key`; the last one if the name is repeated, as in JavaScript. `text` must be the indexed
    /// text.
    pub fn get<'a>(&self, text: &'a str, key: &str) -> Option<&'a str> {
        self.outer.get(text, key)
    }

    /// The same in the inner object.
    pub fn get_inner<'a>(&self, text: &'a str, key: &str) -> Option<&'a str> {
        self.inner.get(text, key)
    }

    /// The members in order: each name as written, with its quotes, and the text of its value.
    pub fn iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.outer.iter(text)
    }

    /// The same for the inner object.
    pub fn iter_inner<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.inner.iter(text)
    }

    /// The index for the text after a value of `len` bytes has replaced the one at `range`; `None` if it would not fit.
    pub fn after_edit(mut self, range: &Range<usize>, len: usize) -> Option<Self> {
        let (start, end) = (u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?);
        let len = u32::try_from(len).ok()?;
        let moved = |at: u32| match at.checked_sub(end) {
            Some(after) => start.checked_add(len)?.checked_add(after),
            None => Some(at).filter(|at| *at <= start),
        };
        for MemberPlace { name, value, .. } in self.outer.iter_mut().chain(self.inner.iter_mut()) {
            *name = (moved(name.0)?, moved(name.1)?);
            *value = (moved(value.0)?, moved(value.1)?);
        }
        Some(self)
    }

    /// Position of the member `key`. `text` must be the indexed text.
    pub fn find(&self, text: &str, key: &str) -> Found {
        let mut named = self.outer.named(text, key);
        match (named.next_back(), named.next()) {
            (Some(_), Some(_)) => Found::member(text, key),
            (value, _) => Found { value: value.map(|place| range(place.value)), superseded: Vec::new() },
        }
    }
}

// === impl Places ===

impl<const MAX: usize> Places<MAX> {
    fn none() -> Self {
        Self { places: [MemberPlace::default(); MAX], len: 0 }
    }

    /// Positions of the members of `part`, a slice of `text`.
    fn of(text: &str, part: &str) -> Option<Self> {
        let mut places = Self::none();
        for (name, value) in Members::of(part) {
            places.push(text, name, value)?;
        }
        Some(places)
    }

    fn push(&mut self, text: &str, name: &str, value: &str) -> Option<()> {
        let is_escaped = has_escape(name);
        *self.places.get_mut(self.len)? =
            MemberPlace { name: place(text, name)?, is_escaped, value: place(text, value)? };
        self.len += 1;
        Some(())
    }

    fn all(&self) -> &[MemberPlace] {
        &self.places[..self.len]
    }

    /// Positions of the members with this name. Comparing lengths first rules out most others.
    fn named(&self, text: &str, key: &str) -> impl DoubleEndedIterator<Item = &MemberPlace> {
        self.all().iter().filter(move |place| place.may_be_named(key) && place.is_named(text, key))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut MemberPlace> {
        self.places.iter_mut().take(self.len)
    }

    fn get<'a>(&self, text: &'a str, key: &str) -> Option<&'a str> {
        let found = self.named(text, key).next_back()?;
        text.get(range(found.value))
    }

    fn iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all().iter().filter_map(|place| Some((text.get(range(place.name))?, text.get(range(place.value))?)))
    }
}

// === impl MemberPlace ===

impl MemberPlace {
    const fn may_be_named(&self, key: &str) -> bool {
        self.is_escaped || (self.name.1 - self.name.0) as usize == key.len() + 2
    }

    fn is_named(&self, text: &str, key: &str) -> bool {
        let Some(written) = text.get(range(self.name)) else { return false };
        if self.is_escaped { name_of(written) == key } else { written.as_bytes()[1..].starts_with(key.as_bytes()) }
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
        let text = r#" { "a" : [1,{"b":2}] , "n\u0061me":"x", "name" : "y", "":null, "c\"":{} }"#;
        let index = MemberIndex::of(text, "c").unwrap();
        for key in ["a", "b", "name", "", "c\"", "c"] {
            assert_eq!(index.get(text, key), member(text.as_bytes(), key), "{key}");
        }
        assert_eq!(index.get(text, "name"), Some("\"y\""));
        assert_eq!(
            (index.find(text, "name").only(), Found::at(text.as_bytes(), &[At::Key("name")]).only()),
            (None, None)
        );
    }

    #[test]
    fn an_index_looks_into_one_member_the_last_of_its_name() {
        let text = r#"{"b":{"a":1},"\u0062" : { "a\u0062":2, "a" : {"a":3} , "c":"" } }"#;
        let index = MemberIndex::of(text, "b").unwrap();
        for key in ["a", "ab", "b", "c"] {
            assert_eq!(
                index.get_inner(text, key),
                member(member(text.as_bytes(), "b").unwrap().as_bytes(), key),
                "{key}"
            );
        }
        assert_eq!((index.iter(text).count(), index.iter_inner(text).count()), (2, 3));
        assert_eq!(MemberIndex::of(r#"{"b":[1]}"#, "b").unwrap().iter_inner(r#"{"b":[1]}"#).count(), 0);
    }

    #[test]
    fn an_index_follows_an_edit() {
        let text = r#"{"a":1,"name":"demo__add" , "b":{"name":2},"":""}"#;
        for value in ["\"add\"", "\"a far longer name than it was before\"", "0"] {
            let found = Found::at(text.as_bytes(), &[At::Key("name")]);
            let edited = found.replace(text, value);
            let index = MemberIndex::of(text, "b").unwrap();
            let index = index.after_edit(found.only().unwrap(), value.len()).unwrap();
            for key in ["a", "name", "b", "", "c"] {
                assert_eq!(index.get(&edited, key), member(edited.as_bytes(), key), "{key} in {edited:?}");
            }
            assert_eq!(index.get_inner(&edited, "name"), Some("2"));
        }
    }

    #[test]
    fn an_object_with_many_members_has_no_index() {
        let object = |members: usize| {
            let members: Vec<String> = (0..members).map(|at| format!("\"{at}\":{at}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let of = |text: &str| MemberIndex::of(text, "b");
        assert_eq!(of(&object(MAX_MEMBERS)).unwrap().get(&object(MAX_MEMBERS), "5"), Some("5"));
        assert!(of(&object(MAX_MEMBERS + 1)).is_none());
        assert!(of(&format!("{{\"b\":{}}}", object(MAX_INNER))).is_some());
        assert!(of(&format!("{{\"b\":{}}}", object(MAX_INNER + 1))).is_none());
        assert_eq!(of("").unwrap().get("", "a"), None);
        assert_eq!(of("[1]").unwrap().get("[1]", "a"), None);
    }
}
