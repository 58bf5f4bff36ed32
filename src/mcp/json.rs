//! Raw JSON, read by view and edited by key. All bytes that are not edited stay the same.
//!
//! Values are never decoded into a tree and written again: numbers, spacing, repeated and unknown members survive
//! unchanged. Nested values are skipped without recursion, so depth costs nothing.

pub(crate) mod check;
pub mod draft;
pub mod index;
mod places;
pub mod scan;

use std::{borrow::Cow, cmp::Ordering, collections::HashSet, fmt, ops::Range, sync::LazyLock};

use bytes::{BufMut as _, Bytes, BytesMut};
use memchr::memmem::Finder;
use serde::{
    Deserialize,
    de::{Deserializer, Visitor},
};

use self::scan::{Elements, Members};

/// One step of a path into a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The member with this name; the last one if the name is repeated.
    Key(&'static str),
    /// Each element of an array.
    Each,
    /// Each member of an object; for repeated names, the last.
    Member,
}

/// The members of one JSON object, in order, borrowed from its text.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(Cow<'a, str>, &'a str)>);

/// Replacements that are collected first and then made in one go. If a name on the path is repeated, only its last
/// member counts. If anything is replaced, the others are removed, so that every reader of the new text finds the same
/// value.
#[derive(Debug, Default)]
pub struct Edits {
    replaced: Vec<(Range<usize>, Vec<u8>)>,
    /// Earlier members of a repeated name, each with the comma after it.
    superseded: Vec<Range<usize>>,
}

/// Position of a value in a text: the value can be read first and replaced later, without a second parse.
#[derive(Debug, Clone, Default)]
pub struct Found {
    value: Option<Range<usize>>,
    /// Earlier members of a repeated name along the path: removed when the value is replaced.
    superseded: Vec<Range<usize>>,
}

/// A member on a path, while its object is being read.
struct MemberOnPath<'t, 'p> {
    name: Cow<'t, str>,
    value: &'t str,
    /// The start of the member, and the start of the next one.
    start: usize,
    next: usize,
    inside: Vec<&'p [At]>,
}

// === impl Object ===

impl<'a> Object<'a> {
    /// Reads the members of an object; `None` if `text` is something else. `text` must be valid JSON, such as part of a
    /// message; other text yields some members.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        is_object(text).then(|| Self(Members::of(text).map(|(name, value)| (name_of(name), value)).collect()))
    }

    /// The text of the member `key`; the last one if the name is repeated, as in JavaScript.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The member `key`, if it is a string.
    pub fn string(&self, key: &str) -> Option<String> {
        self.get(key).and_then(unquote)
    }

    /// The number of members, repeated ones included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members in order, with the text of their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

/// A member name, borrowed if it has no escapes. A lone surrogate is read as U+FFFD, so that one hostile name does not
/// hide the other members.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Name<'de>, E> {
                Ok(Name(String::from_utf8_lossy(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(String::from_utf8_lossy(name).into_owned())))
            }
        }
        deserializer.deserialize_bytes(Text)
    }
}

// === impl Edits ===

impl Edits {
    /// True if there are no replacements.
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty()
    }

    /// Passes the value at the end of `path` in `text` to `change`, and records the replacement that it returns, if
    /// any. Skips a missing value, or a path through another kind of value.
    pub fn visit<F>(&mut self, text: &[u8], path: &[At], change: &mut F)
    where
        F: FnMut(&str) -> Option<String>,
    {
        self.visit_all(text, &[path], change);
    }

    /// Like [`Self::visit`], for several paths in one pass: shared parts are read once. If one path is the beginning of
    /// another, the shorter one counts.
    pub fn visit_all<F>(&mut self, text: &[u8], paths: &[&[At]], change: &mut F)
    where
        F: FnMut(&str) -> Option<String>,
    {
        let Ok(whole) = std::str::from_utf8(text) else { return };
        self.descend(whole, whole, paths, change);
    }

    fn descend<F>(&mut self, whole: &str, part: &str, paths: &[&[At]], change: &mut F)
    where
        F: FnMut(&str) -> Option<String>,
    {
        if paths.iter().any(|path| path.is_empty()) {
            if let Some(replacement) = change(part) {
                self.replaced.push((span(whole, part), replacement.into_bytes()));
            }
            return;
        }
        match part.as_bytes().first() {
            Some(b'[') => {
                let inside = after(paths, |step| matches!(step, At::Each));
                if !inside.is_empty() {
                    Elements::of(part).for_each(|element| self.descend(whole, element, &inside, change));
                }
            }
            _ if paths.iter().any(|path| matches!(path.first(), Some(At::Key(_) | At::Member))) => {
                for member in self.members_on(whole, part, paths) {
                    self.descend(whole, member.value, &member.inside, change);
                }
            }
            _ => {}
        }
    }

    /// The members of the object `part` on any of `paths`; for repeated names, the last.
    fn members_on<'t, 'p>(&mut self, whole: &str, part: &'t str, paths: &[&'p [At]]) -> Vec<MemberOnPath<'t, 'p>> {
        let mut members: Vec<MemberOnPath<'t, 'p>> = Vec::new();
        let mut is_last_on_path = false;
        for (written, value) in Members::of(part) {
            let start = span(whole, written).start;
            if let Some(last) = members.last_mut().filter(|_| is_last_on_path) {
                last.next = start;
            }
            let name = name_of(written);
            let inside = after(paths, |step| match step {
                At::Key(key) => name == *key,
                At::Member => true,
                At::Each => false,
            });
            is_last_on_path = !inside.is_empty();
            if is_last_on_path {
                members.push(MemberOnPath { name, value, start, next: start, inside });
            }
        }
        if members.len() > 1 {
            self.keep_last_of_each(&mut members);
        }
        members
    }

    fn keep_last_of_each(&mut self, members: &mut Vec<MemberOnPath<'_, '_>>) {
        let mut seen = HashSet::with_capacity(members.len());
        let mut keeps: Vec<bool> = members.iter().rev().map(|member| seen.insert(&*member.name)).collect();
        members.retain(|member| {
            let keeps = keeps.pop().unwrap_or(true);
            if !keeps {
                self.superseded.push(member.start..member.next);
            }
            keeps
        });
    }

    /// Applies all replacements; returns the same buffer if there are none. Overlapping replacements are skipped.
    pub fn apply(mut self, text: &Bytes) -> Bytes {
        if self.is_empty() {
            return text.clone();
        }
        self.replaced.extend(self.superseded.into_iter().map(|range| (range, Vec::new())));
        self.replaced.sort_by_key(|(range, _)| range.start);
        let grown: usize = self.replaced.iter().map(|(_, new)| new.len()).sum();
        let mut edited = BytesMut::with_capacity(text.len() + grown);
        let mut done = 0;
        for (range, new) in self.replaced {
            if range.start >= done {
                edited.put_slice(&text[done..range.start]);
                edited.put_slice(&new);
                done = range.end;
            }
        }
        edited.put_slice(&text[done..]);
        edited.freeze()
    }
}

// === impl Found ===

impl Found {
    /// Finds the value of `text` at the end of `path`, which may only lead through objects.
    pub fn at(text: &[u8], path: &[At]) -> Self {
        let (mut value, mut edits) = (None, Edits::default());
        if let Ok(whole) = std::str::from_utf8(text) {
            edits.descend(whole, whole, &[path], &mut |part| {
                value = Some(span(whole, part));
                None
            });
        }
        Self { value, superseded: edits.superseded }
    }

    /// Finds the member `key` of the object `text`.
    fn member(text: &str, key: &str) -> Self {
        let mut found = Self::default();
        // of the last one so far: its start, and the start of the next member
        let (mut start, mut next) = (0, None);
        for (name, value) in Members::of(text) {
            let at = span(text, name).start;
            next = next.or(Some(at));
            if is_named(name, key) {
                if found.value.replace(span(text, value)).is_some() {
                    found.superseded.extend(next.map(|next| start..next));
                }
                (start, next) = (at, None);
            }
        }
        found
    }

    /// Position of the value, if no name on the path is repeated.
    pub(crate) fn only(&self) -> Option<&Range<usize>> {
        self.value.as_ref().filter(|_| self.superseded.is_empty())
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.value.is_none()
    }

    /// The value, if it is a string. `text` is the text that was searched.
    pub fn string(&self, text: &[u8]) -> Option<String> {
        unquote(std::str::from_utf8(text.get(self.value.clone()?)?).ok()?)
    }

    /// Replaces the value by the JSON text `value`. `text` must be the text that was searched.
    pub fn replace(&self, text: &str, value: &str) -> String {
        let Some(place) = &self.value else { return text.to_owned() };
        // exact capacity: sharing a text with spare capacity costs a second allocation
        let gone = place.len() + self.superseded.iter().map(Range::len).sum::<usize>();
        let mut edited = String::with_capacity(text.len().saturating_sub(gone) + value.len());
        let mut kept = 0;
        // superseded members come before the last one, at every level
        for (range, new) in self.superseded.iter().map(|range| (range, "")).chain([(place, value)]) {
            edited.push_str(text.get(kept..range.start).unwrap_or_default());
            edited.push_str(new);
            kept = range.end;
        }
        edited.push_str(text.get(kept..).unwrap_or_default());
        edited
    }
}

/// The rest of each path after its first step.
fn after<'a>(paths: &[&'a [At]], taken: impl Fn(&At) -> bool) -> Vec<&'a [At]> {
    paths.iter().filter_map(|path| path.split_first()).filter(|(step, _)| taken(step)).map(|(_, rest)| rest).collect()
}

/// Sets the member `key` of the object `text` to the JSON text `value`. Adds it at the end if there is none; if the
/// name is repeated, the last one stays. Returns a text that is not an object unchanged.
pub fn with_member(text: &Bytes, key: &str, value: &str) -> Bytes {
    let Some(whole) = std::str::from_utf8(text).ok().filter(|text| is_object(text)) else { return text.clone() };
    let found = Found::member(whole, key);
    if !found.is_empty() {
        return found.replace(whole, value).into();
    }
    let end = closing_brace(text);
    let comma = if Members::of(whole).next().is_none() { "" } else { "," };
    let added = format!("{comma}{}:{value}", quote(key));
    Edits { replaced: vec![(end..end, added.into_bytes())], superseded: Vec::new() }.apply(text)
}

/// Removes every member `key` from the object `text`, with its comma. The text around other members stays; without such
/// a member, the same buffer is returned.
pub fn without_member(text: &Bytes, key: &str) -> Bytes {
    let Some(object) = Object::parse(text) else { return text.clone() };
    if object.0.iter().all(|(name, _)| name != key) {
        return text.clone();
    }
    let open = text.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
    let close = closing_brace(text);
    let mut kept: Vec<&[u8]> = Vec::with_capacity(object.0.len());
    let mut start = open;
    for (index, (name, value)) in object.0.iter().enumerate() {
        let after = offset(text, value).end;
        let end = if index + 1 == object.0.len() { close } else { comma_after(text, after) };
        // text that is not JSON stays as it is
        let Some(member) = text.get(start..end) else { return text.clone() };
        if name != key {
            kept.push(member);
        }
        start = end + 1;
    }
    let mut edited = BytesMut::with_capacity(text.len());
    edited.put_slice(&text[..open]);
    edited.put_slice(&kept.join(&b','));
    edited.put_slice(&text[close..]);
    edited.freeze()
}

/// The text of the member `key` of the object `text`; the last one if the name is repeated, as in JavaScript. `text`
/// must be valid JSON. Allocates nothing.
pub fn member<'a>(text: &'a [u8], key: &str) -> Option<&'a str> {
    member_of(std::str::from_utf8(text).ok()?, key)
}

/// The same, for a text that is known to be an object.
pub(crate) fn member_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    Members::of(text).filter(|(name, _)| is_named(name, key)).last().map(|(_, value)| value)
}

/// True if an object in `text` may have a member with this name, which must consist of letters. Far faster than a
/// search for the member, which most messages do not have.
pub(crate) fn may_hold(text: &[u8], name: &Finder<'_>) -> bool {
    name.find(text).is_some() || may_escape_letters(text)
}

/// True if a name in `text` may have letters written as escapes: `\u` is their only form.
pub(crate) fn may_escape_letters(text: &[u8]) -> bool {
    static NUMBER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r"\u"));
    memchr::memchr(b'\\', text).is_some_and(|first| NUMBER.find(&text[first..]).is_some())
}

/// True if `written`, a name with its quotes, stands for `name`.
pub(crate) fn is_named(written: &str, name: &str) -> bool {
    // an escape is longer than the character it stands for
    match written.len().cmp(&(name.len() + 2)) {
        Ordering::Less => false,
        Ordering::Equal => written.as_bytes()[1..].starts_with(name.as_bytes()),
        Ordering::Greater => has_escape(written) && name_of(written) == name,
    }
}

/// The name for its written form with quotes. A lone surrogate is read as U+FFFD.
pub(crate) fn name_of(written: &str) -> Cow<'_, str> {
    match written.get(1..written.len().saturating_sub(1)) {
        Some(name) if !has_escape(name) => Cow::Borrowed(name),
        _ => serde_json::from_str::<Name<'_>>(written).map(|Name(name)| name).unwrap_or_default(),
    }
}

fn has_escape(text: &str) -> bool {
    memchr::memchr(b'\\', text.as_bytes()).is_some()
}

/// True if the JSON text is an object.
pub(crate) fn is_object(text: impl AsRef<[u8]>) -> bool {
    text.as_ref().trim_ascii_start().starts_with(b"{")
}

/// Quotes a string as JSON text.
pub fn quote(text: &str) -> String {
    if check::special(text.as_bytes()).is_some() {
        // writing a string to memory never fails
        return serde_json::to_string(text).unwrap_or_default();
    }
    // with room for a colon
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.extend(["\"", text, "\""]);
    quoted
}

/// The string that a JSON text stands for; `None` for any other value.
pub fn unquote(text: &str) -> Option<String> {
    unquoted(text).map(Cow::into_owned)
}

/// The same, borrowed if it has no escapes.
pub(crate) fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    // most strings have no escapes
    let plain = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match plain.filter(|plain| check::special(plain.as_bytes()).is_none()) {
        Some(plain) => Some(Cow::Borrowed(plain)),
        None => serde_json::from_str(text).ok().map(Cow::Owned),
    }
}

fn closing_brace(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'}').unwrap_or(text.len())
}

fn comma_after(text: &[u8], from: usize) -> usize {
    text[from..].iter().position(|byte| *byte == b',').map_or(text.len(), |at| from + at)
}

/// Position of `part`, which must be a slice of `whole`.
fn span(whole: &str, part: &str) -> Range<usize> {
    offset(whole.as_bytes(), part)
}

fn offset(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const ODD: &str = r#"{ "a" : 1.0e+2 ,"name":"x", "deep":{"list":[{"uri":"u1"},{"uri":"u2"} ,3]},"name" : "y" , "z":12345678901234567890123 }"#;

    #[test]
    fn the_last_of_repeated_members_is_replaced_and_the_others_go() {
        let edited = with_member(&Bytes::from_static(ODD.as_bytes()), "name", "\"new\"");
        assert_eq!(edited, ODD.replace(r#""name":"x", "#, "").replace("\"y\"", "\"new\""));
        let repeated = Bytes::from_static(br#"{"k":1,"k" : 2 , "\u006b":3,"a":4}"#);
        assert_eq!(with_member(&repeated, "k", "0"), r#"{"\u006b":0,"a":4}"#);
    }

    #[test]
    fn a_value_is_written_once_however_often_its_name_is_repeated() {
        let long = "x".repeat(1_000);
        let text = Bytes::from(format!(r#"{{{}"k":0}}"#, r#""k":0,"#.repeat(1_000)));
        let value = quote(&long);
        assert_eq!(with_member(&text, "k", &value), format!(r#"{{"k":{value}}}"#));
        let mut edits = Edits::default();
        edits.visit(&text, &[At::Key("k")], &mut |_| Some(value.clone()));
        assert_eq!(edits.apply(&text), format!(r#"{{"k":{value}}}"#));
        let mut edits = Edits::default();
        edits.visit(&text, &[At::Member], &mut |_| Some(value.clone()));
        assert_eq!(edits.apply(&text), format!(r#"{{"k":{value}}}"#));
        let nested = Bytes::from_static(br#"{"a":{"k":1},"a" : {"k":2,"k":3}}"#);
        assert_eq!(
            Found::at(&nested, &[At::Key("a"), At::Key("k")]).replace(std::str::from_utf8(&nested).unwrap(), "0"),
            r#"{"a" : {"k":0}}"#
        );
    }

    #[test]
    fn members_with_repeated_names_stay_if_nothing_is_replaced() {
        let mut edits = Edits::default();
        edits.visit(ODD.as_bytes(), &[At::Key("name")], &mut |_| None);
        assert_eq!(edits.apply(&Bytes::from_static(ODD.as_bytes())), ODD);
    }

    #[test]
    fn a_member_is_added_at_the_end() {
        let add = |text: &'static str| with_member(&Bytes::from_static(text.as_bytes()), "k\"", "[]");
        assert_eq!(add("{}"), r#"{"k\"":[]}"#);
        assert_eq!(add(r#"{"a":1 }"#), r#"{"a":1 ,"k\"":[]}"#);
        assert_eq!(add("[1]"), "[1]");
    }

    #[test]
    fn a_member_is_removed_with_its_comma() {
        let remove = |text: &'static str| without_member(&Bytes::from_static(text.as_bytes()), "b");
        assert_eq!(remove(r#"{"b":1}"#), "{}");
        assert_eq!(remove(r#"{"a":1, "b":{"x":[1,2]}}"#), r#"{"a":1}"#);
        assert_eq!(remove(r#"{ "b":",}" , "a":1 }"#), r#"{ "a":1 }"#);
        assert_eq!(remove(r#"{"b":1,"a":[","],"b":2}"#), r#"{"a":[","]}"#);
        assert_eq!(remove(r#"{"a":1}"#), r#"{"a":1}"#);
    }

    #[test]
    fn values_on_a_path_are_edited_in_place() {
        let mut edits = Edits::default();
        let path = [At::Key("deep"), At::Key("list"), At::Each, At::Key("uri")];
        edits.visit(ODD.as_bytes(), &path, &mut |text| unquote(text).map(|uri| quote(&format!("b+{uri}"))));
        let edited = edits.apply(&Bytes::from_static(ODD.as_bytes()));
        assert_eq!(edited, ODD.replace("\"u1\"", "\"b+u1\"").replace("\"u2\"", "\"b+u2\""));
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        assert_eq!(Object::parse(ODD.as_bytes()).unwrap().get("name"), Some("\"y\""));
    }

    #[test]
    fn a_lone_surrogate_in_a_name_hides_nothing() {
        let object = Object::parse(br#"{"\ud800":1,"na\u006de":"y"}"#).unwrap();
        assert_eq!(object.string("name").as_deref(), Some("y"));
        assert_eq!(object.get("\u{fffd}\u{fffd}\u{fffd}"), Some("1"));
    }

    #[test]
    fn what_was_found_is_replaced() {
        let text = Bytes::from_static(ODD.as_bytes());
        let found = Found::at(&text, &[At::Key("name")]);
        assert_eq!((found.only(), found.string(&text).as_deref()), (None, Some("y")));
        assert_eq!(found.replace(ODD, "\"new\""), with_member(&text, "name", "\"new\""));
        assert!(Found::at(&text, &[At::Key("no")]).is_empty());
        assert_eq!(Found::at(&text, &[At::Key("a")]).string(&text), None);
    }

    proptest! {
        #[test]
        fn editing_one_member_leaves_every_other_byte(
            members in vec(("[abk]{1,2}|\"|\u{e9}", "-?[1-9][0-9]{0,25}(\\.[0-9]{1,5})?|\"[a-z{},:\\[\\]]{0,9}\"|\\{\"k\":[0-9]\\}|\\[1, 2\\]"), 0..8),
            space in "[ \\n\\t]{0,2}",
        ) {
            let write = |members: &[(String, String)]| {
                let members: Vec<String> = members.iter()
                    .map(|(name, value)| format!("{space}{}{space}:{space}{value}{space}", quote(name))).collect();
                Bytes::from(format!("{{{}}}{space}", members.join(",")))
            };
            let text = write(&members);
            let others: Vec<_> = members.iter().filter(|(name, _)| name != "k").cloned().collect();
            prop_assert_eq!(without_member(&text, "k"), write(&others));
            if let Some(last) = members.iter().rposition(|(name, _)| name == "k") {
                let is_left = |(at, (name, _)): &(usize, &(String, String))| name != "k" || *at == last;
                let set = |(at, (name, value)): (usize, &(String, String))| {
                    (name.clone(), if at == last { "[7]".to_owned() } else { value.clone() })
                };
                let expected = write(&members.iter().enumerate().filter(is_left).map(set).collect::<Vec<_>>());
                prop_assert_eq!(with_member(&text, "k", "[7]"), &expected);
                let whole = std::str::from_utf8(&text).unwrap();
                prop_assert_eq!(Found::at(&text, &[At::Key("k")]).replace(whole, "[7]"), expected);
            }
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Object::parse(text.as_bytes()).unwrap().get("a").map(str::len), Some(200_000));
    }
}
