//! Reading a draft, without opening a level.

use std::borrow::Cow;

use super::{
    super::{
        member_of, name_of,
        places::Container,
        scan::{Elements, Members},
        unquote,
    },
    Draft, Look, Node,
};

impl Draft<'_> {
    /// True for an object.
    pub fn is_object(&self) -> bool {
        match &self.0 {
            Node::Text(text) => Container::of(text) == Some(Container::Object),
            Node::Open(_) => true,
        }
    }

    /// True for an array.
    pub fn is_array(&self) -> bool {
        matches!(&self.0, Node::Text(text) if Container::of(text) == Some(Container::Array))
    }

    /// True for an object without members, or an array without elements.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Node::Text(text) => match Container::of(text) {
                Some(Container::Object) => Members::of(text).next().is_none(),
                Some(Container::Array) => Elements::of(text).next().is_none(),
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

    /// True if it is this literal: `true`, `false`, `null`, or a number as written.
    pub fn is_literal(&self, literal: &str) -> bool {
        matches!(&self.0, Node::Text(text) if text == literal)
    }

    /// The member `key`, read-only; the last one if the name is repeated.
    pub fn get(&self, key: &str) -> Option<Look<'_>> {
        match &self.0 {
            Node::Text(text) => member_of(text, key).map(Look::of),
            Node::Open(level) => {
                let item = level.items.iter().rev().find(|item| level.written.is_named(item, key))?;
                Some(level.written.look(item))
            }
        }
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

    /// The members in order, read-only; none if it is not an object.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, Look<'_>)> {
        let (text, level) = match &self.0 {
            Node::Text(text) => (Some(text), None),
            Node::Open(level) => (None, Some(level)),
        };
        let written = text.into_iter().flat_map(|text| Members::of(text));
        let opened = level.into_iter().flat_map(|level| {
            level.items.iter().map(|item| (name_of(level.written.name(item)), level.written.look(item)))
        });
        written.map(|(name, value)| (name_of(name), Look::of(value))).chain(opened)
    }

    /// The elements in order, read-only; none if it is not an array.
    pub fn elements(&self) -> impl Iterator<Item = Look<'_>> {
        let text = match &self.0 {
            Node::Text(text) => Some(text),
            Node::Open(_) => None,
        };
        text.into_iter().flat_map(|text| Elements::of(text)).map(Look::of)
    }
}
