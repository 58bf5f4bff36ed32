//! A JSON text that is being edited: opened level by level where a rule looks, and written back with every other byte
//! unchanged.
//!
//! A member that is repeated is edited as one: the last occurrence stays, as JavaScript reads it, and the others go. So an
//! edit never writes a value more than once, and every reader of the new text finds the same one.
//!
//! Opening a level scans what is below it once. Each member or element of an open level takes 24 bytes until it is edited,
//! and values that are passed to a closure are kept only if it changed them.

use std::{
    borrow::Cow,
    collections::HashSet,
    ops::{Deref, Range},
};

use super::{
    is_named, member_of, name_of, quote,
    scan::{Elements, Members},
    span, unquote,
};

/// One JSON value that is being edited.
#[derive(Debug, Clone)]
pub struct Draft<'a>(Node<'a>);

/// A value inside a draft, only to look at.
#[derive(Debug)]
pub struct Look<'a>(Draft<'a>);

#[derive(Debug, Clone)]
enum Node<'a> {
    /// As it was written (borrowed), or as it was set (owned).
    Text(Cow<'a, str>),
    Open(Box<Level<'a>>),
}

/// An opened object or array.
#[derive(Debug, Clone)]
struct Level<'a> {
    /// Its text when it was opened.
    text: Cow<'a, str>,
    kind: LevelKind,
    items: Vec<Item<'a>>,
    /// True if items were added, removed or renamed, or if the text was set.
    edited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LevelKind {
    Object,
    Array,
}

/// A member or an element. There may be one for every two bytes of a hostile text, so it is small.
#[derive(Debug, Clone)]
struct Item<'a> {
    place: Place,
    /// The item instead of what stands at `place`, once it was opened, set or added.
    edit: Option<Box<EditedItem<'a>>>,
}

/// Where an item stands in the text of its level, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: u32,
    value: (u32, u32),
    end: u32,
}

/// An item with a value of its own, and the text around it.
#[derive(Debug, Clone)]
struct EditedItem<'a> {
    /// The text before the value: white space, and in an object the name and the colon.
    head: Cow<'a, str>,
    value: Draft<'a>,
    /// The white space after the value.
    tail: Cow<'a, str>,
}

// === impl Draft ===

impl<'a> Draft<'a> {
    /// A value as it was written; `text` must be one JSON value.
    pub fn of(text: &'a str) -> Self {
        Self(Node::Text(Cow::Borrowed(text.trim_ascii())))
    }

    /// A value of the gateway's own making; `text` must be one JSON value.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Node::Text(Cow::Owned(text.into())))
    }

    /// True if anything differs from the original.
    pub fn is_changed(&self) -> bool {
        match &self.0 {
            Node::Text(text) => matches!(text, Cow::Owned(_)),
            Node::Open(level) => level.is_changed(),
        }
    }

    /// The JSON text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.len());
        self.write(&mut text);
        text
    }

    /// The length of the JSON text in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Node::Text(text) => text.len(),
            Node::Open(level) => level.len(),
        }
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        self.kind() == Some(LevelKind::Object)
    }

    /// True for an array.
    pub fn is_array(&self) -> bool {
        self.kind() == Some(LevelKind::Array)
    }

    /// True for an object without members, or an array without elements.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Node::Text(text) => match LevelKind::of(text) {
                Some(LevelKind::Object) => Members::of(text).next().is_none(),
                Some(LevelKind::Array) => Elements::of(text).next().is_none(),
                None => false,
            },
            Node::Open(level) => level.items.is_empty(),
        }
    }

    /// The string; `None` if it is something else.
    pub fn string(&self) -> Option<String> {
        match &self.0 {
            Node::Text(text) => unquote(text),
            Node::Open(_) => None,
        }
    }

    /// True if it is this string.
    pub fn is(&self, text: &str) -> bool {
        self.string().is_some_and(|string| string == text)
    }

    /// True if it is this literal: `true`, `false`, `null`, or a number as it is written.
    pub fn is_literal(&self, literal: &str) -> bool {
        matches!(&self.0, Node::Text(text) if text == literal)
    }

    /// The member `key`, to look at; the last one if the name is repeated.
    pub fn get(&self, key: &str) -> Option<Look<'_>> {
        match self.parts(LevelKind::Object) {
            (Some(text), _) => member_of(text, key).map(Look::of),
            (None, level) => {
                let level = level?;
                let item = level.items.iter().rev().find(|item| item.is_named(&level.text, key))?;
                Some(item.look(&level.text))
            }
        }
    }

    /// The member `key`, to edit. If the name is repeated, the last one stays.
    pub fn edit(&mut self, key: &str) -> Option<&mut Self> {
        let level = self.object()?;
        let at = level.keep_last(key)?;
        Some(&mut level.edit(at).value)
    }

    /// True if there is a member `key`.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The text of the member `key`.
    pub fn member(&self, key: &str) -> Option<String> {
        self.get(key).map(|value| value.text())
    }

    /// The member `key`, if it is a string.
    pub fn member_string(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| value.string())
    }

    /// The members in order, to look at; none if it is no object.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, Look<'_>)> {
        let (text, level) = self.parts(LevelKind::Object);
        let written = text.map(Members::of).into_iter().flatten().map(|(name, value)| (name_of(name), Look::of(value)));
        let opened = level.into_iter().flat_map(|level| {
            level.items.iter().map(|item| (name_of(item.written_name(&level.text)), item.look(&level.text)))
        });
        written.chain(opened)
    }

    /// The elements in order, to look at; none if it is no array.
    pub fn elements(&self) -> impl Iterator<Item = Look<'_>> {
        let (text, level) = self.parts(LevelKind::Array);
        let written = text.map(Elements::of).into_iter().flatten().map(Look::of);
        let opened = level.into_iter().flat_map(|level| level.items.iter().map(|item| item.look(&level.text)));
        written.chain(opened)
    }

    /// Passes each member, by its name, to `change`.
    pub fn each_member(&mut self, mut change: impl FnMut(&str, &mut Draft<'_>)) {
        self.retain_members(|name, value| {
            change(name, value);
            true
        });
    }

    /// Passes each element to `change`.
    pub fn each_element(&mut self, mut change: impl FnMut(&mut Draft<'_>)) {
        self.retain_elements(|value| {
            change(value);
            true
        });
    }

    /// Makes it this JSON text.
    pub fn replace(&mut self, text: impl Into<String>) {
        *self = Self::new(text);
    }

    /// Sets the member `key` to a JSON text. It is added at the end if there is none; if the name is repeated, the last one
    /// stays. Nothing happens to what is no object.
    pub fn set(&mut self, key: &str, text: impl Into<String>) {
        match self.edit(key) {
            Some(value) => value.replace(text),
            None => self.add(key, text),
        }
    }

    /// The member `key` as an object to edit: an empty one takes the place of anything else. `None` if this is no object.
    pub fn edit_object(&mut self, key: &str) -> Option<&mut Self> {
        if self.get(key).is_none_or(|value| !value.is_object()) {
            self.set(key, "{}");
        }
        self.edit(key)
    }

    /// Removes every member `key`, and returns true if there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        self.remove_all(&[key])
    }

    /// Removes every member in `keys`, and returns true if there was one.
    pub fn remove_all(&mut self, keys: &[&str]) -> bool {
        let Some(level) = self.object() else { return false };
        let (text, before) = (&level.text, level.items.len());
        level.items.retain(|item| {
            let written = item.written_name(text);
            !keys.iter().any(|key| is_named(written, key))
        });
        let removed = level.items.len() < before;
        level.edited |= removed;
        removed
    }

    /// Gives the member `key` another name, in its place. A member that had the new name is removed.
    pub fn rename(&mut self, key: &str, new: &str) {
        if !self.has(key) {
            return;
        }
        self.remove(new);
        let Some(level) = self.object() else { return };
        let Some(at) = level.keep_last(key) else { return };
        level.edited = true;
        let item = level.edit(at);
        let space = item.head.len() - item.head.trim_ascii_start().len();
        item.head = Cow::Owned(format!("{}{}", &item.head[..space], head_of(new)));
    }

    /// Keeps the members that `keep` selects, as it leaves them.
    pub fn retain_members(&mut self, mut keep: impl FnMut(&str, &mut Draft<'_>) -> bool) {
        if let Some(level) = self.object() {
            level.retain(|head, value| keep(&name_of(written_name(head)), value));
        }
    }

    /// Keeps the elements that `keep` selects, as it leaves them.
    pub fn retain_elements(&mut self, mut keep: impl FnMut(&mut Draft<'_>) -> bool) {
        if let Some(level) = self.array() {
            level.retain(|_, value| keep(value));
        }
    }

    /// Adds an element at the end of an array.
    pub fn push(&mut self, text: impl Into<String>) {
        if let Some(level) = self.array() {
            level.append(String::new(), text.into());
        }
    }

    /// Puts in the place of each element what `parts` makes of it; `None` leaves it as it is.
    pub fn split_elements(&mut self, mut parts: impl FnMut(&mut Draft<'_>) -> Option<Vec<String>>) {
        if let Some(level) = self.array() {
            level.split(|_, value| Some(parts(value)?.into_iter().map(|text| (String::new(), text)).collect()));
        }
    }

    /// Puts in the place of each member the members that `parts` makes of it, by name and JSON text; `None` leaves it as it
    /// is. Of members with one name, only the last stays.
    pub fn split_members(&mut self, mut parts: impl FnMut(&str, &mut Draft<'_>) -> Option<Vec<(String, String)>>) {
        if let Some(level) = self.object() {
            level.keep_last_of_each();
            level.split(|head, value| {
                let named = parts(&name_of(written_name(head)), value)?.into_iter();
                Some(named.map(|(name, text)| (head_of(&name), text)).collect())
            });
        }
    }

    /// Adds a member at the end; the name must be new.
    pub fn add(&mut self, key: &str, text: impl Into<String>) {
        if let Some(level) = self.object() {
            level.append(head_of(key), text.into());
        }
    }

    /// Adds members at the end, each in the place of one of its name.
    pub fn add_all(&mut self, members: Vec<(String, String)>) {
        let Some(level) = self.object() else { return };
        members.into_iter().for_each(|(key, text)| level.append(head_of(&key), text));
        level.keep_last_of_each();
    }

    fn kind(&self) -> Option<LevelKind> {
        match &self.0 {
            Node::Text(text) => LevelKind::of(text),
            Node::Open(level) => Some(level.kind),
        }
    }

    /// The text of a closed value, or the level of an open one, if it is of this kind.
    fn parts(&self, kind: LevelKind) -> (Option<&str>, Option<&Level<'a>>) {
        match &self.0 {
            _ if self.kind() != Some(kind) => (None, None),
            Node::Text(text) => (Some(text), None),
            Node::Open(level) => (None, Some(level)),
        }
    }

    fn object(&mut self) -> Option<&mut Level<'a>> {
        self.level(LevelKind::Object)
    }

    fn array(&mut self) -> Option<&mut Level<'a>> {
        self.level(LevelKind::Array)
    }

    /// Opens one level, if it is of this kind.
    fn level(&mut self, kind: LevelKind) -> Option<&mut Level<'a>> {
        if self.kind() != Some(kind) {
            return None;
        }
        if let Node::Text(text) = &mut self.0 {
            let text = std::mem::take(text);
            self.0 = Node::Open(Box::new(Level::open(text, kind)));
        }
        match &mut self.0 {
            Node::Open(level) => Some(level),
            Node::Text(_) => None,
        }
    }

    /// The same value, to look at.
    fn look(&self) -> Look<'_> {
        Look(Draft(Node::Text(match &self.0 {
            Node::Text(text) => Cow::Borrowed(&**text),
            Node::Open(level) if level.is_changed() => Cow::Owned(self.text()),
            Node::Open(level) => Cow::Borrowed(&*level.text),
        })))
    }

    fn write(&self, out: &mut String) {
        match &self.0 {
            Node::Text(text) => out.push_str(text),
            Node::Open(level) => level.write(out),
        }
    }
}

// === impl Look ===

impl<'a> Look<'a> {
    fn of(text: &'a str) -> Self {
        Self(Draft::of(text))
    }

    /// A copy that can be edited.
    pub fn into_draft(self) -> Draft<'a> {
        self.0
    }
}

impl<'a> Deref for Look<'a> {
    type Target = Draft<'a>;

    fn deref(&self) -> &Draft<'a> {
        &self.0
    }
}

// === impl LevelKind ===

impl LevelKind {
    fn of(text: &str) -> Option<Self> {
        match text.as_bytes().first() {
            Some(b'{') => Some(Self::Object),
            Some(b'[') => Some(Self::Array),
            _ => None,
        }
    }

    const fn brackets(self) -> (char, char) {
        match self {
            Self::Object => ('{', '}'),
            Self::Array => ('[', ']'),
        }
    }
}

// === impl Level ===

impl<'a> Level<'a> {
    fn open(text: Cow<'a, str>, kind: LevelKind) -> Self {
        let mut items: Vec<Item<'a>> = Vec::new();
        // where the text before the next value begins
        let mut at = 1;
        let mut add = |value: &str| {
            let value = span(&text, value);
            if let Some(before) = items.last_mut() {
                let comma = text[at..value.start].bytes().position(|byte| byte == b',').unwrap_or_default();
                before.place.end = offset(at + comma);
                at += comma + 1;
            }
            let place = Place { start: offset(at), value: (offset(value.start), offset(value.end)), end: 0 };
            items.push(Item { place, edit: None });
            at = value.end;
        };
        match kind {
            LevelKind::Object => Members::of(&text).for_each(|(_, value)| add(value)),
            LevelKind::Array => Elements::of(&text).for_each(|value| add(value)),
        }
        if let Some(last) = items.last_mut() {
            last.place.end = offset(text.len() - 1);
        }
        let edited = matches!(text, Cow::Owned(_));
        Self { text, kind, items, edited }
    }

    fn is_changed(&self) -> bool {
        self.edited || self.items.iter().any(|item| item.edit.as_ref().is_some_and(|edit| edit.value.is_changed()))
    }

    /// Removes all members `key` but the last, and returns its place.
    fn keep_last(&mut self, key: &str) -> Option<usize> {
        let last = self.items.iter().rposition(|item| item.is_named(&self.text, key))?;
        if !self.items[..last].iter().any(|item| item.is_named(&self.text, key)) {
            return Some(last);
        }
        let (text, after, mut at) = (&self.text, self.items.len() - last, 0);
        self.items.retain(|item| {
            at += 1;
            at > last || !item.is_named(text, key)
        });
        self.edited = true;
        Some(self.items.len() - after)
    }

    /// Removes every member that another one of its name follows.
    fn keep_last_of_each(&mut self) {
        let mut seen = HashSet::with_capacity(self.items.len());
        let names = self.items.iter().rev().map(|item| name_of(item.written_name(&self.text)));
        let mut keeps: Vec<bool> = names.map(|name| seen.insert(name)).collect();
        drop(seen);
        let before = self.items.len();
        self.items.retain(|_| keeps.pop().unwrap_or(true));
        self.edited |= self.items.len() < before;
    }

    /// The item at this place, with a value that can be edited.
    fn edit(&mut self, at: usize) -> &mut EditedItem<'a> {
        let (text, Item { place, edit }) = (&self.text, &mut self.items[at]);
        edit.get_or_insert_with(|| EditedItem::at(text, *place, Draft(Node::Text(part(text, place.value())))))
    }

    /// Passes the text before each value, and the value, to `keep`, and removes the items for which it returns false.
    fn retain(&mut self, mut keep: impl FnMut(&str, &mut Draft<'_>) -> bool) {
        let (text, before) = (&self.text, self.items.len());
        self.items.retain_mut(|Item { place, edit }| {
            if let Some(edit) = edit {
                let EditedItem { head, value, .. } = &mut **edit;
                return keep(head, value);
            }
            let mut value = place.draft(text);
            let keeps = keep(&text[place.head()], &mut value);
            if keeps && value.is_changed() {
                *edit = Some(EditedItem::at(text, *place, Draft::new(value.text())));
            }
            keeps
        });
        self.edited |= self.items.len() < before;
    }

    /// Puts in the place of each item what `parts` makes of the text before its value and of its value: texts before
    /// values, and values.
    fn split(&mut self, mut parts: impl FnMut(&str, &mut Draft<'_>) -> Option<Vec<(String, String)>>) {
        for mut item in std::mem::take(&mut self.items) {
            let new = match &mut item.edit {
                Some(edit) => {
                    let EditedItem { head, value, .. } = &mut **edit;
                    parts(head, value)
                }
                None => parts(&self.text[item.place.head()], &mut item.place.draft(&self.text)),
            };
            match new {
                None => self.items.push(item),
                Some(new) => new.into_iter().for_each(|(head, text)| self.append(head, text)),
            }
        }
        self.edited = true;
    }

    fn append(&mut self, head: String, text: String) {
        let edit = EditedItem { head: Cow::Owned(head), value: Draft::new(text), tail: Cow::Borrowed("") };
        self.items.push(Item { place: Place::default(), edit: Some(Box::new(edit)) });
        self.edited = true;
    }

    fn len(&self) -> usize {
        let items: usize = self.items.iter().map(|item| item.len() + 1).sum();
        if items == 0 { 2 + self.inner().len() } else { 1 + items }
    }

    /// The white space in a level that was empty from the beginning.
    fn inner(&self) -> &str {
        let inner = self.text.get(1..self.text.len() - 1).unwrap_or_default();
        if inner.trim_ascii().is_empty() { inner } else { "" }
    }

    fn write(&self, out: &mut String) {
        let (open, close) = self.kind.brackets();
        out.push(open);
        if self.items.is_empty() {
            out.push_str(self.inner());
        }
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.write(&self.text, out);
        }
        out.push(close);
    }
}

// === impl Item ===

impl Item<'_> {
    /// The value, to look at.
    fn look<'s>(&'s self, text: &'s str) -> Look<'s> {
        self.edit.as_ref().map_or_else(|| Look(self.place.draft(text)), |edit| edit.value.look())
    }

    /// The name as it is written, with its quotes; empty in an array.
    fn written_name<'s>(&'s self, text: &'s str) -> &'s str {
        written_name(self.edit.as_ref().map_or_else(|| &text[self.place.head()], |edit| &edit.head))
    }

    fn is_named(&self, text: &str, key: &str) -> bool {
        is_named(self.written_name(text), key)
    }

    fn len(&self) -> usize {
        match &self.edit {
            Some(edit) => edit.head.len() + edit.value.len() + edit.tail.len(),
            None => self.place.whole().len(),
        }
    }

    fn write(&self, text: &str, out: &mut String) {
        match &self.edit {
            Some(edit) => {
                out.push_str(&edit.head);
                edit.value.write(out);
                out.push_str(&edit.tail);
            }
            None => out.push_str(&text[self.place.whole()]),
        }
    }
}

// === impl Place ===

impl Place {
    const fn whole(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    const fn head(self) -> Range<usize> {
        self.start as usize..self.value.0 as usize
    }

    const fn value(self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }

    const fn tail(self) -> Range<usize> {
        self.value.1 as usize..self.end as usize
    }

    fn draft(self, text: &str) -> Draft<'_> {
        Draft(Node::Text(Cow::Borrowed(&text[self.value()])))
    }
}

// === impl EditedItem ===

impl<'a> EditedItem<'a> {
    /// The item at `place` of `text`, with another value.
    fn at(text: &Cow<'a, str>, place: Place, value: Draft<'a>) -> Box<Self> {
        Box::new(Self { head: part(text, place.head()), value, tail: part(text, place.tail()) })
    }
}

/// Part of a text, borrowed if the text is.
fn part<'a>(text: &Cow<'a, str>, range: Range<usize>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[range]),
        Cow::Owned(text) => Cow::Owned(text[range].to_owned()),
    }
}

/// The name in the text before a member's value.
fn written_name(head: &str) -> &str {
    let head = head.trim_ascii();
    head.strip_suffix(':').map_or(head, str::trim_ascii_end)
}

/// The text before the value of an added member.
fn head_of(key: &str) -> String {
    let mut head = quote(key);
    head.push(':');
    head
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("no message is longer than 1 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str =
        r#"{ "a" : 1.0e+2 ,"list":[ {"u":"1"} , [ ] ,3],"a": 2 , "e":{ } , "z":12345678901234567890123 }"#;

    #[test]
    fn what_is_only_looked_at_is_written_as_it_was() {
        let mut draft = Draft::of(ODD);
        assert_eq!(draft.member("a").as_deref(), Some("2"));
        draft.get("list").unwrap().elements().for_each(|element| assert!(!element.has("none")));
        assert!(draft.get("e").unwrap().is_empty());
        assert!(!draft.remove("none"));
        assert!(!draft.is_changed());
        assert_eq!(draft.text(), ODD);
    }

    #[test]
    fn members_and_elements_are_edited_in_place() {
        let mut draft = Draft::of(ODD);
        draft.set("a", "0");
        draft.rename("z", "big");
        let list = draft.edit("list").unwrap();
        list.push("true");
        list.each_element(|element| element.set("v", "{}"));
        list.retain_elements(|element| !element.is_array());
        assert!(draft.remove("e"));
        assert_eq!(draft.text(), r#"{"list":[ {"u":"1","v":{}} ,3,true],"a": 0 , "big":12345678901234567890123 }"#);
    }

    #[test]
    fn what_was_set_can_be_opened_again() {
        let mut draft = Draft::of("{}");
        draft.set("k", r#"{"x":[1]}"#);
        draft.edit("k").unwrap().edit("x").unwrap().push("2");
        assert_eq!(draft.text(), r#"{"k":{"x":[1,2]}}"#);
        assert!(draft.is_changed());
        draft.edit("k").unwrap().each_member(|name, value| {
            assert_eq!(name, "x");
            value.each_element(|element| element.replace("{}"));
        });
        assert_eq!(draft.get("k").unwrap().get("x").unwrap().elements().count(), 2);
        assert_eq!(draft.text(), r#"{"k":{"x":[{},{}]}}"#);
        assert_eq!(draft.len(), draft.text().len());
    }

    #[test]
    fn a_repeated_member_is_edited_once_and_its_others_go() {
        let text = format!(r#"{{{}"a":[1] }}"#, r#""\u0061" : [0],"#.repeat(1_000));
        let mut set = Draft::of(&text);
        set.set("a", "2");
        let mut edited = Draft::of(&text);
        edited.edit("a").unwrap().push("2");
        let mut renamed = Draft::of(&text);
        renamed.rename("a", "b");
        let mut split = Draft::of(&text);
        split.split_members(|name, value| {
            Some(vec![(format!("{name}1"), value.text()), (format!("{name}2"), "0".to_owned())])
        });
        let mut added = Draft::of(&text);
        added.add_all(vec![("a".to_owned(), "3".to_owned()), ("a".to_owned(), "4".to_owned())]);
        let texts = [set, edited, renamed, split, added].map(|draft| draft.text());
        assert_eq!(texts, [r#"{"a":2 }"#, r#"{"a":[1,2] }"#, r#"{"b":[1] }"#, r#"{"a1":[1],"a2":0}"#, r#"{"a":4}"#]);
    }

    #[test]
    fn a_level_is_empty_only_without_items() {
        for (text, empty) in [("{ }", true), ("[ ]", true), (r#"{"a":1}"#, false), ("[0]", false), ("0", false)] {
            let mut draft = Draft::of(text);
            assert_eq!(draft.is_empty(), empty, "{text}");
            draft.each_element(|_| {});
            draft.each_member(|_, _| {});
            assert_eq!((draft.is_empty(), draft.text().as_str()), (empty, text));
        }
        let mut draft = Draft::of(r#"{ "a":1 }"#);
        assert!(draft.remove("a") && draft.is_empty());
        assert_eq!(draft.text(), "{}");
    }

    #[test]
    fn an_element_gives_way_to_several() {
        let mut draft = Draft::of("[1, 2]");
        draft.split_elements(|element| (element.text() == "2").then(|| vec!["3".to_owned(), "4".to_owned()]));
        assert_eq!(draft.text(), "[1,3,4]");
    }
}
