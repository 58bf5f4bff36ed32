//! A JSON text that is being edited. It is opened level by level, only where a rule looks, and written back with every
//! other byte unchanged.
//!
//! A repeated member is edited as one: the last occurrence stays, as in JavaScript, and the others are removed. So
//! every reader of the new text finds the same value.
//!
//! An object is opened to find members in it: each takes 24 bytes until it is edited. Changes to all members or
//! elements take one pass, which keeps only the new text, and only from the first change on.

mod reading;
mod rewriting;

use std::{
    borrow::Cow,
    collections::HashSet,
    num::NonZero,
    ops::{Deref, Range},
};

use super::{
    is_named, name_of,
    places::{Container, ItemPlace, each_place, head_of, offset, written_name},
};

/// One JSON value that is being edited.
#[derive(Debug, Clone)]
pub struct Draft<'a>(Node<'a>);

/// A read-only value inside a draft.
#[derive(Debug)]
pub struct Look<'a>(Draft<'a>);

#[derive(Debug, Clone)]
enum Node<'a> {
    /// As written (borrowed), or as set (owned).
    Text(Cow<'a, str>),
    Open(Box<OpenObject<'a>>),
}

#[derive(Debug, Clone)]
struct OpenObject<'a> {
    items: Vec<Item>,
    written: WrittenItems<'a>,
    /// True if members were added, removed or renamed, or if the text was set.
    edited: bool,
}

/// A member. A hostile text may have one for every five bytes, so this is small.
#[derive(Debug, Clone, Copy)]
struct Item {
    place: ItemPlace,
    /// Number of the edit, from one, that replaces the text at `place`; `None` until the member is opened, set or
    /// added.
    edit: Option<NonZero<u32>>,
}

/// Text of an opened object, with its changed items.
#[derive(Debug, Clone)]
struct WrittenItems<'a> {
    /// The object's text when it was opened.
    text: Cow<'a, str>,
    /// The edits in their order. Edits of removed members stay.
    edits: Vec<EditedItem<'a>>,
}

/// A member that has its own value, with the text around it.
#[derive(Debug, Clone)]
struct EditedItem<'a> {
    /// The text before the value: white space, the name and the colon.
    head: Cow<'a, str>,
    value: Draft<'a>,
    /// The white space after the value.
    tail: Cow<'a, str>,
}

// === impl Draft ===

impl<'a> Draft<'a> {
    /// A value as written; `text` must be one JSON value.
    pub fn of(text: &'a str) -> Self {
        Self(Node::Text(Cow::Borrowed(text.trim_ascii())))
    }

    /// The same, but opens an object at once, for reading several members.
    pub fn opened(text: &'a str) -> Self {
        let mut draft = Self::of(text);
        draft.object();
        draft
    }

    /// A value made by the gateway; `text` must be one JSON value.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Node::Text(Cow::Owned(text.into())))
    }

    /// True if any byte differs from the original.
    pub fn is_changed(&self) -> bool {
        match &self.0 {
            Node::Text(text) => matches!(text, Cow::Owned(_)),
            Node::Open(level) => level.is_changed(),
        }
    }

    pub fn text(&self) -> String {
        self.text_within(usize::MAX).unwrap_or_default()
    }

    /// The JSON text; `None`, without writing it, if it would have more than `max` bytes.
    pub fn text_within(&self, max: usize) -> Option<String> {
        let len = self.len();
        (len <= max).then(|| {
            let mut text = String::with_capacity(len);
            self.write(&mut text);
            text
        })
    }

    /// The length of the JSON text in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Node::Text(text) => text.len(),
            Node::Open(level) => level.len(),
        }
    }

    /// The member `key` for editing; the last one if the name is repeated, and the others are removed.
    pub fn edit(&mut self, key: &str) -> Option<&mut Self> {
        let level = self.object()?;
        let at = level.keep_last(key)?;
        Some(&mut level.edit(at).value)
    }

    /// Replaces the value by a JSON text.
    pub fn replace(&mut self, text: impl Into<String>) {
        *self = Self::new(text);
    }

    /// Sets the member `key` to a JSON text. Adds it at the end if there is none; if the name is repeated, the last one
    /// stays. Does nothing if this is not an object.
    pub fn set(&mut self, key: &str, text: impl Into<String>) {
        match self.edit(key) {
            Some(value) => value.replace(text),
            None => self.add(key, text),
        }
    }

    /// The member `key` as an object for editing; any other value is replaced by an empty object. `None` if this is not
    /// an object.
    pub fn edit_object(&mut self, key: &str) -> Option<&mut Self> {
        if self.get(key).is_none_or(|value| !value.is_object()) {
            self.set(key, "{}");
        }
        self.edit(key)
    }

    /// Removes every member `key`; returns true if there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        self.remove_all(&[key])
    }

    /// Removes every member in `keys`; returns true if there was one.
    pub fn remove_all(&mut self, keys: &[&str]) -> bool {
        let Some(level) = self.object() else { return false };
        let (written, before) = (&level.written, level.items.len());
        level.items.retain(|item| {
            let name = written.name(item);
            !keys.iter().any(|key| is_named(name, key))
        });
        let removed = level.items.len() < before;
        level.edited |= removed;
        removed
    }

    /// Renames the member `key`, which keeps its position. A member that already has the new name is removed.
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

    /// Adds a member at the end; the name must be new.
    pub fn add(&mut self, key: &str, text: impl Into<String>) {
        if let Some(level) = self.object() {
            level.append(head_of(key), text.into());
        }
    }

    /// Adds members at the end, and removes earlier members with the same names.
    pub fn add_all(&mut self, members: Vec<(String, String)>) {
        if let Some(level) = self.object() {
            for (key, text) in members {
                level.append(head_of(&key), text);
            }
        }
        self.keep_last_of_each();
    }

    fn keep_last_of_each(&mut self) {
        if let Some(level) = self.object() {
            level.keep_last_of_each();
        }
    }

    /// Opens an object; `None` if this is not an object.
    fn object(&mut self) -> Option<&mut OpenObject<'a>> {
        if let Node::Text(text) = &mut self.0 {
            if Container::of(text) != Some(Container::Object) {
                return None;
            }
            let text = std::mem::take(text);
            self.0 = Node::Open(Box::new(OpenObject::open(text)));
        }
        match &mut self.0 {
            Node::Open(level) => Some(level),
            Node::Text(_) => None,
        }
    }

    /// Closes an object that was opened.
    fn close(&mut self) {
        if let Node::Open(level) = &mut self.0 {
            self.0 = Node::Text(if level.is_changed() {
                Cow::Owned(level.text())
            } else {
                std::mem::take(&mut level.written.text)
            });
        }
    }

    /// The same value, read-only.
    fn look(&self) -> Look<'_> {
        Look(Draft(Node::Text(match &self.0 {
            Node::Text(text) => Cow::Borrowed(&**text),
            Node::Open(level) if level.is_changed() => Cow::Owned(self.text()),
            Node::Open(level) => Cow::Borrowed(&*level.written.text),
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

    /// An editable copy.
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

// === impl OpenObject ===

impl<'a> OpenObject<'a> {
    fn open(text: Cow<'a, str>) -> Self {
        // more than most objects have, so that one allocation is enough
        let mut items = Vec::with_capacity(8);
        each_place(&text, Container::Object, |place| items.push(Item { place, edit: None }));
        let edited = matches!(text, Cow::Owned(_));
        Self { items, written: WrittenItems { text, edits: Vec::new() }, edited }
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.len());
        self.write(&mut text);
        text
    }

    fn is_changed(&self) -> bool {
        self.edited || self.written.edits.iter().any(|edit| edit.value.is_changed())
    }

    /// Removes all members `key` but the last; returns its position.
    fn keep_last(&mut self, key: &str) -> Option<usize> {
        let last = self.items.iter().rposition(|item| self.written.is_named(item, key))?;
        if !self.items[..last].iter().any(|item| self.written.is_named(item, key)) {
            return Some(last);
        }
        let (after, mut at) = (self.items.len() - last, 0);
        self.items.retain(|item| {
            at += 1;
            at > last || !self.written.is_named(item, key)
        });
        self.edited = true;
        Some(self.items.len() - after)
    }

    /// Removes all but the last member of each name.
    fn keep_last_of_each(&mut self) {
        let mut seen = HashSet::with_capacity(self.items.len());
        let names = self.items.iter().rev().map(|item| name_of(self.written.name(item)));
        let mut keeps: Vec<bool> = names.map(|name| seen.insert(name)).collect();
        drop(seen);
        let before = self.items.len();
        self.items.retain(|_| keeps.pop().unwrap_or(true));
        self.edited |= self.items.len() < before;
    }

    /// The item at this position, with an editable value.
    fn edit(&mut self, at: usize) -> &mut EditedItem<'a> {
        self.written.edit(&mut self.items[at])
    }

    fn append(&mut self, head: String, text: String) {
        let edit = EditedItem { head: Cow::Owned(head), value: Draft::new(text), tail: Cow::Borrowed("") };
        self.items.push(Item { place: ItemPlace::default(), edit: self.written.add(edit) });
        self.edited = true;
    }

    fn len(&self) -> usize {
        let items: usize = self.items.iter().map(|item| self.written.len(item) + 1).sum();
        if items == 0 { 2 + self.inner().len() } else { 1 + items }
    }

    /// The white space in an object that was written empty.
    fn inner(&self) -> &str {
        let text = &self.written.text;
        let inner = text.get(1..text.len() - 1).unwrap_or_default();
        if inner.trim_ascii().is_empty() { inner } else { "" }
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        if self.items.is_empty() {
            out.push_str(self.inner());
        }
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            self.written.write(item, out);
        }
        out.push('}');
    }
}

// === impl WrittenItems ===

impl<'a> WrittenItems<'a> {
    fn edited(&self, item: &Item) -> Option<&EditedItem<'a>> {
        self.edits.get(item.edit?.get() as usize - 1)
    }

    /// The item's value, read-only.
    fn look(&self, item: &Item) -> Look<'_> {
        self.edited(item).map_or_else(|| Look(draft_at(&self.text, item.place)), |edit| edit.value.look())
    }

    /// The item's name as written, with its quotes.
    fn name(&self, item: &Item) -> &str {
        self.edited(item)
            .map_or_else(|| self.text[item.place.name()].trim_ascii_start(), |edit| written_name(&edit.head))
    }

    fn is_named(&self, item: &Item, key: &str) -> bool {
        is_named(self.name(item), key)
    }

    /// The item, with an editable value.
    fn edit(&mut self, item: &mut Item) -> &mut EditedItem<'a> {
        if item.edit.is_none() {
            let (text, place) = (&self.text, item.place);
            let value = Draft(Node::Text(part(text, place.value())));
            let edit = EditedItem { head: part(text, place.head()), value, tail: part(text, place.tail()) };
            item.edit = self.add(edit);
        }
        let index = item.edit.map_or(0, |edit| edit.get() as usize - 1);
        &mut self.edits[index]
    }

    fn add(&mut self, edit: EditedItem<'a>) -> Option<NonZero<u32>> {
        self.edits.push(edit);
        NonZero::new(offset(self.edits.len()))
    }

    fn len(&self, item: &Item) -> usize {
        match self.edited(item) {
            Some(edit) => edit.head.len() + edit.value.len() + edit.tail.len(),
            None => item.place.whole().len(),
        }
    }

    fn write(&self, item: &Item, out: &mut String) {
        match self.edited(item) {
            Some(edit) => {
                out.push_str(&edit.head);
                edit.value.write(out);
                out.push_str(&edit.tail);
            }
            None => out.push_str(&self.text[item.place.whole()]),
        }
    }
}

/// The value at `place`, as written.
fn draft_at(text: &str, place: ItemPlace) -> Draft<'_> {
    Draft(Node::Text(Cow::Borrowed(&text[place.value()])))
}

/// Part of a text; borrowed if the text is.
fn part<'a>(text: &Cow<'a, str>, range: Range<usize>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[range]),
        Cow::Owned(text) => Cow::Owned(text[range].to_owned()),
    }
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
