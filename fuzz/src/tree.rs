//! A JSON text as a tree, read by `serde_json` and by nothing of the gateway's own: with repeated members, in order, and with
//! numbers as they are written.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// One value. Two are equal if they mean the same: members in any order, of repeated ones the last.
#[derive(Clone, PartialEq, Eq)]
pub enum Tree {
    /// `null`, `true`, `false`, or a number as it is written.
    Literal(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Members),
}

/// The members of an object, in order.
#[derive(Clone, Default)]
pub struct Members(pub Vec<(String, Tree)>);

/// The members of an object with their texts.
struct Written<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Written<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Written<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Written(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

// === impl Tree ===

impl Tree {
    /// Deeper texts are no trees: this recursion is that of the call stack.
    const DEEPEST: usize = 100;

    /// The tree of `text`; `None` if it is invalid, too deep, or has a string with half a surrogate pair.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(text).ok()?;
        Self::at_depth(text, 0)
    }

    fn at_depth(text: &str, depth: usize) -> Option<Self> {
        if depth > Self::DEEPEST {
            return None;
        }
        let below = |raw: &RawValue| Self::at_depth(raw.get(), depth + 1);
        let text = text.trim_ascii();
        Some(match text.as_bytes().first()? {
            b'{' => {
                let Written(members) = serde_json::from_str(text).ok()?;
                let members = members.into_iter().map(|(name, value)| Some((name, below(value)?)));
                Self::Object(Members(members.collect::<Option<_>>()?))
            }
            b'[' => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::Array(elements.into_iter().map(below).collect::<Option<_>>()?)
            }
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            _ => Self::Literal(serde_json::from_str::<&RawValue>(text).ok()?.get().to_owned()),
        })
    }

    /// The member `key`, the last one if the name is repeated.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.members()?.get(key)
    }

    /// The members, if it is an object.
    pub fn members(&self) -> Option<&Members> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The same, to edit.
    pub fn members_mut(&mut self) -> Option<&mut Members> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The elements, if it is an array.
    pub fn elements(&self) -> Option<&[Self]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// True if no object in it has a name twice.
    pub fn is_unambiguous(&self) -> bool {
        match self {
            Self::Literal(_) | Self::Text(_) => true,
            Self::Array(elements) => elements.iter().all(Self::is_unambiguous),
            Self::Object(members) => {
                members.last().len() == members.0.len() && members.0.iter().all(|(_, value)| value.is_unambiguous())
            }
        }
    }

    /// The same value without members that another one of their name follows.
    #[must_use]
    pub fn unambiguous(&self) -> Self {
        match self {
            Self::Literal(_) | Self::Text(_) => self.clone(),
            Self::Array(elements) => Self::Array(elements.iter().map(Self::unambiguous).collect()),
            Self::Object(Members(members)) => {
                let is_last = |at: usize| members[at + 1..].iter().all(|(name, _)| *name != members[at].0);
                let kept = members.iter().enumerate().filter(|(at, _)| is_last(*at));
                Self::Object(Members(kept.map(|(_, (name, value))| (name.clone(), value.unambiguous())).collect()))
            }
        }
    }

    /// The members of an object in order, of those with one name the last.
    pub fn last_of_each(self) -> Vec<(String, Self)> {
        let Self::Object(Members(members)) = self else { return Vec::new() };
        let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
        let is_last = |at: usize| !names[at + 1..].contains(&names[at]);
        members.into_iter().enumerate().filter(|(at, _)| is_last(*at)).map(|(_, member)| member).collect()
    }

    /// The values at the end of `path`: names with dots between them, `*` for each element.
    pub fn at(&self, path: &str) -> Vec<&Self> {
        path.split('.').fold(vec![self], |found, step| {
            let below = |value| match step {
                "*" => Self::elements(value).unwrap_or_default().iter().collect::<Vec<_>>(),
                name => Self::get(value, name).into_iter().collect(),
            };
            found.into_iter().flat_map(below).collect()
        })
    }

    /// The JSON text, with the spelling that `spell` chooses.
    pub fn write(&self, out: &mut String, spell: &mut dyn FnMut(Spelled<'_>) -> String) {
        match self {
            Self::Literal(text) => out.push_str(text),
            Self::Text(text) => out.push_str(&spell(Spelled::Text(text))),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(&spell(Spelled::Space));
                    element.write(out, spell);
                    out.push_str(&spell(Spelled::Space));
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.0.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(&spell(Spelled::Space));
                    out.push_str(&spell(Spelled::Text(name)));
                    out.push_str(&spell(Spelled::Space));
                    out.push(':');
                    out.push_str(&spell(Spelled::Space));
                    value.write(out, spell);
                    out.push_str(&spell(Spelled::Space));
                }
                out.push('}');
            }
        }
    }
}

/// What a spelling is asked for.
pub enum Spelled<'a> {
    /// White space.
    Space,
    /// A string.
    Text(&'a str),
}

/// The text as it is written with the fewest bytes.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, &mut |spelled| match spelled {
            Spelled::Space => String::new(),
            Spelled::Text(text) => serde_json::to_string(text).unwrap_or_default(),
        });
        f.write_str(&text)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Members ===

impl Members {
    /// The member `key`, the last one if the name is repeated.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The same, to edit; the others of the name go.
    pub fn edit(&mut self, key: &str) -> Option<&mut Tree> {
        let last = self.0.iter().rposition(|(name, _)| name == key)?;
        let mut at = 0;
        self.0.retain(|(name, _)| {
            at += 1;
            at > last || name != key
        });
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets the member `key`; of several the last.
    pub fn set(&mut self, key: &str, value: Tree) {
        match self.edit(key) {
            Some(held) => *held = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Gives the member `key`, of several the last, another name in its place; those that had the new name go.
    pub fn rename(&mut self, key: &str, new: &str) {
        if key != new && self.edit(key).is_some() {
            self.remove(new);
            self.0.iter_mut().filter(|(name, _)| name == key).for_each(|(name, _)| new.clone_into(name));
        }
    }

    /// Removes all members `key`.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    /// The members by name, of several the last.
    pub fn last(&self) -> BTreeMap<&str, &Tree> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).collect()
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.last() == other.last()
    }
}

impl Eq for Members {}
