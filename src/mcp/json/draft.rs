//! A JSON text that is being edited: parsed by level where a rule looks, written back with every other byte unchanged.
//! Knows nothing of MCP.
//!
//! Opening a level scans what is below it once, so a rule that looks a fixed number of levels deep is linear. What is not
//! opened is never parsed into a tree.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{name_of, quote, scan::Members, span, unquote};

/// One JSON value that is being edited.
#[derive(Debug, Clone)]
pub struct Draft<'a>(Node<'a>);

#[derive(Debug, Clone)]
enum Node<'a> {
    /// As it was written (borrowed), or as it was set (owned).
    Text(Cow<'a, str>),
    Object(DraftLevel<'a>),
    Array(DraftLevel<'a>),
}

/// An opened object or array.
#[derive(Debug, Clone)]
struct DraftLevel<'a> {
    items: Vec<DraftItem<'a>>,
    /// The white space in an empty one.
    inner: Cow<'a, str>,
    /// True if items were added, removed or renamed.
    edited: bool,
}

/// A member or an element, with the text around it.
#[derive(Debug, Clone)]
struct DraftItem<'a> {
    /// The text before the value: white space, and in an object the name and the colon.
    head: Cow<'a, str>,
    /// The name; empty in an array.
    name: Cow<'a, str>,
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
            Node::Object(level) | Node::Array(level) => {
                level.edited || level.items.iter().any(|item| item.value.is_changed())
            }
        }
    }

    /// The JSON text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.len());
        self.write(&mut text);
        text
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        match &self.0 {
            Node::Text(text) => text.starts_with('{'),
            Node::Object(_) => true,
            Node::Array(_) => false,
        }
    }

    /// True for an array.
    pub fn is_array(&self) -> bool {
        match &self.0 {
            Node::Text(text) => text.starts_with('['),
            Node::Object(_) => false,
            Node::Array(_) => true,
        }
    }

    /// True for an object without members, or an array without elements.
    pub fn is_empty(&mut self) -> bool {
        self.level().is_some_and(|level| level.items.is_empty())
    }

    /// The string; `None` if it is something else.
    pub fn string(&self) -> Option<String> {
        match &self.0 {
            Node::Text(text) => unquote(text),
            Node::Object(_) | Node::Array(_) => None,
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

    /// The member `key`; the last one if the name is repeated, as in JavaScript.
    pub fn get(&mut self, key: &str) -> Option<&mut Self> {
        self.members().filter(|(name, _)| *name == key).last().map(|(_, value)| value)
    }

    /// Every member `key`: what is to be so for every reader, whichever of repeated names it takes, is done to each.
    pub fn each(&mut self, key: &str) -> impl Iterator<Item = &mut Self> {
        self.members().filter(move |(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The text of the member `key`.
    pub fn member(&mut self, key: &str) -> Option<String> {
        self.get(key).map(|value| value.text())
    }

    /// The member `key`, if it is a string.
    pub fn member_string(&mut self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| value.string())
    }

    /// The members in order; none if it is no object.
    pub fn members(&mut self) -> impl Iterator<Item = (&str, &mut Self)> {
        let items = if self.is_object() { self.level().map(|level| &mut level.items) } else { None };
        items.into_iter().flatten().map(|item| (item.name.as_ref(), &mut item.value))
    }

    /// The elements in order; none if it is no array.
    pub fn elements(&mut self) -> impl Iterator<Item = &mut Self> {
        let items = if self.is_array() { self.level().map(|level| &mut level.items) } else { None };
        items.into_iter().flatten().map(|item| &mut item.value)
    }

    /// Makes it this JSON text.
    pub fn replace(&mut self, text: impl Into<String>) {
        *self = Self::new(text);
    }

    /// Sets the member `key` to a JSON text: every occurrence is replaced, or it is added at the end. Nothing happens to
    /// what is no object.
    pub fn set(&mut self, key: &str, text: impl Into<String>) {
        let text = text.into();
        let mut found = false;
        for value in self.each(key) {
            value.replace(text.clone());
            found = true;
        }
        if !found {
            self.add(key, text);
        }
    }

    /// Removes every member `key`; whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        self.remove_all(&[key])
    }

    /// Removes every member that `keys` names; whether there was one.
    pub fn remove_all(&mut self, keys: &[&str]) -> bool {
        self.is_object() && self.retain_items(|name, _| !keys.contains(&name))
    }

    /// Gives the member `key` another name, in its place. Members that had the new name before are removed.
    pub fn rename(&mut self, key: &str, new: &str) {
        if !self.members().any(|(name, _)| name == key) {
            return;
        }
        self.remove(new);
        let Some(level) = self.level() else { return };
        for item in level.items.iter_mut().filter(|item| item.name == key) {
            let space = item.head.len() - item.head.trim_ascii_start().len();
            item.head = Cow::Owned(format!("{}{}", &item.head[..space], head_of(new)));
            item.name = Cow::Owned(new.to_owned());
        }
        level.edited = true;
    }

    /// Keeps the members that `keep` selects.
    pub fn retain_members(&mut self, mut keep: impl FnMut(&str, &mut Self) -> bool) {
        if self.is_object() {
            self.retain_items(|name, value| keep(name, value));
        }
    }

    /// Keeps the elements that `keep` selects.
    pub fn retain_elements(&mut self, mut keep: impl FnMut(&mut Self) -> bool) {
        if self.is_array() {
            self.retain_items(|_, value| keep(value));
        }
    }

    /// Adds an element at the end of an array.
    pub fn push(&mut self, text: impl Into<String>) {
        if self.is_array() {
            self.append(String::new(), String::new(), text.into());
        }
    }

    /// Puts in the place of each element what `parts` makes of it; `None` leaves it as it is.
    pub fn split_elements(&mut self, mut parts: impl FnMut(&mut Self) -> Option<Vec<String>>) {
        if self.is_array() {
            self.split(|_, value| {
                Some(parts(value)?.into_iter().map(|text| (String::new(), String::new(), text)).collect())
            });
        }
    }

    /// Puts in the place of each member the members that `parts` makes of it, by name and JSON text; `None` leaves it as
    /// it is.
    pub fn split_members(&mut self, mut parts: impl FnMut(&str, &mut Self) -> Option<Vec<(String, String)>>) {
        if self.is_object() {
            self.split(|name, value| {
                let named = parts(name, value)?.into_iter();
                Some(named.map(|(name, text)| (head_of(&name), name, text)).collect())
            });
        }
    }

    /// Adds a member at the end, without a look whether the name is there already.
    pub fn add(&mut self, key: &str, text: impl Into<String>) {
        if self.is_object() {
            self.append(head_of(key), key.to_owned(), text.into());
        }
    }

    fn split(&mut self, mut parts: impl FnMut(&str, &mut Self) -> Option<Vec<(String, String, String)>>) {
        let Some(level) = self.level() else { return };
        for mut item in std::mem::take(&mut level.items) {
            let Some(new) = parts(&item.name, &mut item.value) else {
                level.items.push(item);
                continue;
            };
            level.edited = true;
            level.items.extend(new.into_iter().map(|(head, name, text)| DraftItem::new(head, name, text)));
        }
    }

    fn append(&mut self, head: String, name: String, text: String) {
        let Some(level) = self.level() else { return };
        level.items.push(DraftItem::new(head, name, text));
        level.edited = true;
    }

    fn retain_items(&mut self, mut keep: impl FnMut(&str, &mut Self) -> bool) -> bool {
        let Some(level) = self.level() else { return false };
        let before = level.items.len();
        level.items.retain_mut(|item| keep(&item.name, &mut item.value));
        let removed = level.items.len() < before;
        level.edited |= removed;
        removed
    }

    /// Parses one level, if it is an object or an array.
    fn level(&mut self) -> Option<&mut DraftLevel<'a>> {
        if let Node::Text(text) = &self.0 {
            self.0 = match text {
                Cow::Borrowed(text) => Node::open(text)?,
                Cow::Owned(text) => Node::open(text)?.into_owned(),
            };
        }
        match &mut self.0 {
            Node::Object(level) | Node::Array(level) => Some(level),
            Node::Text(_) => None,
        }
    }

    /// The length of the text.
    fn len(&self) -> usize {
        match &self.0 {
            Node::Text(text) => text.len(),
            Node::Object(level) | Node::Array(level) => level.len(),
        }
    }

    fn write(&self, out: &mut String) {
        match &self.0 {
            Node::Text(text) => out.push_str(text),
            Node::Object(level) => level.write(out, '{', '}'),
            Node::Array(level) => level.write(out, '[', ']'),
        }
    }

    fn into_owned<'b>(self) -> Draft<'b> {
        Draft(match self.0 {
            Node::Text(text) => Node::Text(Cow::Owned(text.into_owned())),
            opened => opened.into_owned(),
        })
    }
}

// === impl Node ===

impl<'a> Node<'a> {
    fn open(text: &'a str) -> Option<Self> {
        if text.starts_with('{') {
            let members = Members::of(text).map(|(name, value)| (name_of(name), value));
            Some(Node::Object(DraftLevel::read(text, members)))
        } else {
            let elements: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
            Some(Node::Array(DraftLevel::read(
                text,
                elements.into_iter().map(|value| (Cow::Borrowed(""), value.get())),
            )))
        }
    }

    fn into_owned<'b>(self) -> Node<'b> {
        match self {
            Node::Text(text) => Node::Text(Cow::Owned(text.into_owned())),
            // an owned text differs from the original, so it counts as edited
            Node::Object(level) => Node::Object(level.into_owned()),
            Node::Array(level) => Node::Array(level.into_owned()),
        }
    }
}

// === impl DraftItem ===

impl DraftItem<'_> {
    fn new(head: String, name: String, text: String) -> Self {
        let (head, name, tail) = (Cow::Owned(head), Cow::Owned(name), Cow::Borrowed(""));
        Self { head, name, value: Draft::new(text), tail }
    }
}

// === impl DraftLevel ===

impl<'a> DraftLevel<'a> {
    fn read(text: &'a str, values: impl Iterator<Item = (Cow<'a, str>, &'a str)>) -> Self {
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let mut items: Vec<DraftItem<'a>> = Vec::with_capacity(8);
        let mut at = 1;
        for (name, value) in values {
            let value_at = span(text, value);
            let mut between = part(at, value_at.start);
            if let Some(before) = items.last_mut() {
                let comma = between.bytes().position(|byte| byte == b',').unwrap_or_default();
                before.tail = Cow::Borrowed(&between[..comma]);
                between = between.get(comma + 1..).unwrap_or_default();
            }
            let (head, value) = (Cow::Borrowed(between), Draft(Node::Text(Cow::Borrowed(value))));
            items.push(DraftItem { head, name, value, tail: Cow::Borrowed("") });
            at = value_at.end;
        }
        let end = Cow::Borrowed(part(at, text.len() - 1));
        match items.last_mut() {
            Some(last) => last.tail = end,
            None => return DraftLevel { items, inner: end, edited: false },
        }
        DraftLevel { items, inner: Cow::Borrowed(""), edited: false }
    }

    /// The length of the text, with its brackets and commas.
    fn len(&self) -> usize {
        let items = self.items.iter().map(|item| item.head.len() + item.value.len() + item.tail.len() + 1);
        2 + self.inner.len() + items.sum::<usize>()
    }

    fn write(&self, out: &mut String, open: char, close: char) {
        out.push(open);
        if self.items.is_empty() {
            out.push_str(&self.inner);
        }
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&item.head);
            item.value.write(out);
            out.push_str(&item.tail);
        }
        out.push(close);
    }

    fn into_owned<'b>(self) -> DraftLevel<'b> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let items = self.items.into_iter().map(|item| DraftItem {
            head: own(item.head),
            name: own(item.name),
            value: item.value.into_owned(),
            tail: own(item.tail),
        });
        DraftLevel { items: items.collect(), inner: own(self.inner), edited: true }
    }
}

/// The text before the value of an added member.
fn head_of(key: &str) -> String {
    let mut head = quote(key);
    head.push(':');
    head
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
        draft.get("list").unwrap().elements().for_each(|element| assert_eq!(element.get("none").map(|_| ()), None));
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
        draft.get("list").unwrap().push("true");
        draft.get("list").unwrap().elements().next().unwrap().set("v", "{}");
        draft.get("list").unwrap().retain_elements(|element| !element.is_array());
        assert!(draft.remove("e"));
        assert_eq!(
            draft.text(),
            r#"{ "a" : 0 ,"list":[ {"u":"1","v":{}} ,3,true],"a": 0 , "big":12345678901234567890123 }"#
        );
    }

    #[test]
    fn what_was_set_can_be_opened_again() {
        let mut draft = Draft::of("{}");
        draft.set("k", r#"{"x":[1]}"#);
        draft.get("k").unwrap().get("x").unwrap().push("2");
        assert_eq!(draft.text(), r#"{"k":{"x":[1,2]}}"#);
        assert!(draft.is_changed());
    }

    #[test]
    fn an_element_gives_way_to_several() {
        let mut draft = Draft::of("[1, 2]");
        draft.split_elements(|element| (element.text() == "2").then(|| vec!["3".to_owned(), "4".to_owned()]));
        assert_eq!(draft.text(), "[1,3,4]");
    }
}
