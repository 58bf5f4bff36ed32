//! JSON text of one payload, with the positions of its members and of the members of `_meta`, which are found once and
//! kept.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use bytestring::ByteString;

use super::json::{self, At, Found, index::MemberIndex, scan::Members};

pub const META: &str = "_meta";

/// A JSON text in UTF-8, or none. Cheap to clone. Members are indexed at the first lookup.
#[derive(Debug, Clone, Default)]
pub struct IndexedJson {
    text: ByteString,
    /// The inner `None` means that there are too many members for an index.
    index: OnceLock<Option<Arc<MemberIndex>>>,
}

// === impl IndexedJson ===

impl IndexedJson {
    /// Wraps a text, which must be one JSON value or empty.
    pub const fn new(text: ByteString) -> Self {
        Self { text, index: OnceLock::new() }
    }

    pub fn into_text(self) -> Bytes {
        self.text.into_bytes()
    }

    /// The text of the member `key`, the last one if the name is repeated.
    pub fn member(&self, key: &str) -> Option<&str> {
        match self.index() {
            Some(index) => index.get(&self.text, key),
            None => json::member_of(&self.text, key),
        }
    }

    /// The same as [`Self::member`], without indexing the other members.
    pub fn peek(&self, key: &str) -> Option<&str> {
        match self.index.get() {
            Some(Some(index)) => index.get(&self.text, key),
            _ => json::member_of(&self.text, key),
        }
    }

    /// The text of the member `key` of `_meta`, the last one if the name is repeated.
    pub fn meta_member(&self, key: &str) -> Option<&str> {
        match self.index() {
            Some(index) => index.get_inner(&self.text, key),
            None => json::member_of(json::member_of(&self.text, META)?, key),
        }
    }

    /// The members in order: each name as written, with its quotes, and the text of its value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let (text, index) = (&*self.text, self.index());
        let scanned = if index.is_none() { Some(Members::of(text)) } else { None };
        index.map(|index| index.iter(text)).into_iter().flatten().chain(scanned.into_iter().flatten())
    }

    /// The members of `_meta`, likewise.
    pub fn meta_members(&self) -> impl Iterator<Item = (&str, &str)> {
        let (text, index) = (&*self.text, self.index());
        let meta = if index.is_none() { json::member_of(text, META) } else { None };
        let scanned = meta.map(Members::of).into_iter().flatten();
        index.map(|index| index.iter_inner(text)).into_iter().flatten().chain(scanned)
    }

    /// The positions of the values at the end of `path`.
    pub fn find(&self, path: &[At]) -> Found {
        match (path, self.index()) {
            ([At::Key(key)], Some(index)) => index.find(&self.text, key),
            _ => Found::at(self.text.as_bytes(), path),
        }
    }

    /// The text with every value in `found` replaced by the JSON text `value`.
    #[must_use]
    pub fn replaced(self, found: &Found, value: &str) -> Self {
        let index = self.index.into_inner().flatten().zip(found.only());
        let index = index.and_then(|(index, place)| Arc::unwrap_or_clone(index).after_edit(place, value.len()));
        let index = index.map_or_else(OnceLock::new, |index| OnceLock::from(Some(Arc::new(index))));
        Self { text: found.replace(&self.text, value).into(), index }
    }

    fn index(&self) -> Option<&MemberIndex> {
        self.index.get_or_init(|| MemberIndex::of(&self.text, META).map(Arc::new)).as_deref()
    }
}

/// Bytes that are not UTF-8 are not JSON, and count as no text.
impl From<Bytes> for IndexedJson {
    fn from(text: Bytes) -> Self {
        Self::new(text.try_into().unwrap_or_default())
    }
}

impl From<ByteString> for IndexedJson {
    fn from(text: ByteString) -> Self {
        Self::new(text)
    }
}

impl From<String> for IndexedJson {
    fn from(text: String) -> Self {
        Self::new(text.into())
    }
}

/// The text; empty if there is none.
impl Deref for IndexedJson {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        self.text.as_bytes()
    }
}

impl PartialEq for IndexedJson {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for IndexedJson {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_also_where_they_are_too_many_for_an_index() {
        let few = r#"{"a":1,"_meta":{"b":2,"c":"x"}}"#.to_owned();
        let many = few.replace("\"a\"", "\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"a\"");
        for text in [few, many] {
            let json = IndexedJson::new(text.into());
            assert_eq!((json.member("a"), json.member("b")), (Some("1"), None));
            assert_eq!((json.meta_member("b"), json.meta_member("a")), (Some("2"), None));
            let names = |member: (&str, &str)| member.0.trim_matches('"').to_owned();
            assert_eq!(json.members().map(names).collect::<Vec<_>>().concat().trim_matches(char::is_numeric), "a_meta");
            assert_eq!(json.meta_members().map(names).collect::<Vec<_>>(), ["b", "c"]);
        }
    }

    #[test]
    fn a_replaced_member_is_found_at_its_new_place() {
        let json = IndexedJson::new(ByteString::from_static(r#"{"name":"demo__add","_meta":{"b":2}}"#));
        let found = json.find(&[At::Key("name")]);
        let other = json.clone();
        let edited = json.replaced(&found, "\"add\"");
        assert_eq!((edited.member("name"), edited.meta_member("b")), (Some("\"add\""), Some("2")));
        assert_eq!(other.member("name"), Some("\"demo__add\""));
    }
}
