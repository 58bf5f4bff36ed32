//! Look-ups and edits of raw JSON against a tree. Input: the number of edits, three bytes for each, and a text.
//!
//! Oracles: a text is valid where `serde_json` takes it for JSON; a look-up finds what the tree has (of repeated members the
//! last); an edit gives the tree that the same edit of the tree gives, has each edited name once, and is no longer than
//! what it was made of.

use bytes::Bytes;
use lockkeeper::{
    fuzzing,
    mcp::{
        IndexedJson,
        json::{
            self, At, Edits, Found, Object,
            draft::Draft,
            scan::{Elements, Measure, Members, compact},
        },
    },
};
use serde_json::value::RawValue;

use super::{
    input::{Dice, Speller},
    tree::Tree,
};

/// Names that the edits use. `At` wants static ones.
const NAMES: [&str; 8] = ["a", "b", "name", "_meta", "content", "", "\u{e9}/\"", "properties"];
/// Values that they write.
const VALUES: [&str; 8] =
    ["0", "{}", "[]", "\"x\"", r#"{"a":1,"a":2}"#, r#"[{"b":null},1e400]"#, "null", r#""\u0061\/""#];
/// Maximum number of edits.
const MAX_EDITS: usize = 8;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let edits: Vec<[u8; 3]> = (0..dice.below(MAX_EDITS + 1)).map(|_| [dice.byte(), dice.byte(), dice.byte()]).collect();
    let Ok(text) = std::str::from_utf8(dice.rest()) else { return };
    let is_valid = serde_json::from_str::<&RawValue>(text).is_ok();
    assert_eq!(fuzzing::is_json(text), is_valid, "valid: {text}");
    let Some(tree) = Tree::read(text) else {
        // deeper than this reads, or no JSON: all that is edited is checked first, and yet nothing panics
        hold(text);
        return;
    };
    look_up(text, &tree);
    strings(text, &tree);
    for edit in &edits {
        one_edit(text, &tree, *edit);
    }
    many_edits(text, &tree, &edits);
}

/// Texts like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"a":1,"a":2,"\u0061":3,"b":{"name":"x"}}"#,
        r#" [ 1 , {"a":[]} , "\ud83e\udd80" ] "#,
        r#"{"_meta":{"a":1,"b":[{"c":{}}],"name":"n"},"content":[{"type":"text","text":"\/"}],"1":1,"2":2,"3":3,"4":4}"#,
        r#"{ "properties" : { "a" : true , "b" : { } } , "" : null }"#,
    ];
    let with = |text: &str| [&[3, 1, 2, 3, 4, 5, 6, 7, 8, 9], text.as_bytes()].concat();
    texts.into_iter().map(with).collect()
}

fn same(text: &str, tree: &Tree, what: &dyn Fn() -> String) {
    assert_eq!(Tree::read(text).as_ref(), Some(tree), "{}: {text}", what());
}

/// What cannot be compared, because it is too deep or no JSON, must not panic.
fn hold(text: &str) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let _ = (json::member(&bytes, "a"), json::with_member(&bytes, "a", "1"), json::without_member(&bytes, "a"));
    let _ = (Members::of(text).count(), Elements::of(text).count(), compact(text), Measure::of(text).is(text));
    let _ = IndexedJson::from(bytes).member("a").is_some();
    for key in NAMES {
        let edits: [&dyn Fn(&mut Draft<'_>); 8] = [
            &|draft| draft.set(key, "1"),
            &|draft| _ = draft.remove(key),
            &|draft| draft.rename(key, "c"),
            &|draft| draft.push("1"),
            &|draft| draft.each_element(|element| element.set(key, "1")),
            &|draft| draft.split_elements(|element| element.is_object().then(Vec::new)),
            &|draft| draft.split_members(|name, _| (name == key).then(Vec::new)),
            &|draft| _ = draft.edit_object(key).map(|inner| inner.set("in", "1")),
        ];
        for edit in edits {
            let mut draft = Draft::of(text);
            edit(&mut draft);
            let _ = (draft.text(), draft.get(key).is_some(), draft.members().count(), draft.elements().count());
        }
    }
}

fn look_up(text: &str, tree: &Tree) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let indexed = IndexedJson::from(bytes.clone());
    let draft = Draft::of(text);
    let shown = fuzzing::checked_members(text).expect("a valid text");
    let members = tree.members().map(|members| members.0.as_slice()).unwrap_or_default();
    assert_eq!(shown.len(), members.len());
    assert!(shown.iter().zip(Members::of(text)).all(|(shown, scanned)| *shown == scanned), "{text}");
    for ((written, value), (name, held)) in shown.iter().zip(members) {
        assert_eq!(fuzzing::name_of(written), *name);
        assert!(fuzzing::is_named(written, name));
        same(value, held, &|| format!("the member {name:?} of {text}"));
    }
    let object = Object::parse(&bytes);
    assert_eq!(object.as_ref().map(Object::len), tree.members().map(|members| members.0.len()));
    for key in NAMES.into_iter().chain(members.iter().map(|(name, _)| name.as_str())) {
        let expected = tree.get(key);
        let found = [
            json::member(&bytes, key).map(str::to_owned),
            object.as_ref().and_then(|object| object.get(key)).map(str::to_owned),
            indexed.member(key).map(str::to_owned),
            indexed.peek(key).map(str::to_owned),
            draft.member(key),
        ];
        for one in found {
            assert_eq!(one.as_deref().and_then(Tree::read).as_ref(), expected, "{key:?} in {text}");
        }
        let inner = indexed.meta_member(key).and_then(Tree::read);
        assert_eq!(inner.as_ref(), tree.get("_meta").and_then(|meta| meta.get(key)), "{key:?} of _meta in {text}");
    }
    let elements: Vec<&str> = Elements::of(text).collect();
    assert_eq!(elements.len(), tree.elements().map_or(0, <[Tree]>::len), "{text}");
    for (element, held) in elements.iter().zip(tree.elements().unwrap_or_default()) {
        same(element, held, &|| format!("an element of {text}"));
    }
    assert_eq!(draft.elements().count(), elements.len());
    assert_eq!((draft.text().as_str(), draft.len()), (text.trim_ascii(), text.trim_ascii().len()));
}

fn strings(text: &str, tree: &Tree) {
    let compacted = compact(text);
    same(&compacted, tree, &|| "compact".to_owned());
    assert!(Measure::of(text).is(&compacted), "{text}");
    assert_eq!(json::unquote(text.trim_ascii()).as_deref(), tree.text(), "{text}");
    if let Some(string) = tree.text() {
        assert_eq!(json::unquote(&json::quote(string)).as_deref(), Some(string));
        same(&json::quote(string), tree, &|| "quote".to_owned());
    }
    let respelled = Speller::new(text.len() as u64).respell(tree);
    same(&respelled, tree, &|| "another spelling".to_owned());
    look_up(&respelled, &Tree::read(&respelled).expect("a tree"));
}

/// One edit by each of the functions that make a single one.
fn one_edit(text: &str, tree: &Tree, [kind, key, value]: [u8; 3]) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let key = NAMES[usize::from(key) % NAMES.len()];
    let written = VALUES[usize::from(value) % VALUES.len()];
    let value = Tree::read(written).expect("a value");
    let mut expected = tree.clone();
    let edited = match kind % 5 {
        0 => {
            expected.members_mut().into_iter().for_each(|members| members.set(key, value.clone()));
            json::with_member(&bytes, key, written)
        }
        1 => {
            expected.members_mut().into_iter().for_each(|members| members.remove(key));
            json::without_member(&bytes, key)
        }
        2 => {
            let found = Found::at(&bytes, &[At::Key("_meta"), At::Key(key)]);
            let held = tree.get("_meta").and_then(|meta| meta.get(key));
            assert_eq!(found.is_empty(), held.is_none(), "{text}");
            if held.is_some() {
                let meta = expected.members_mut().and_then(|members| members.edit("_meta"));
                meta.and_then(Tree::members_mut).into_iter().for_each(|members| members.set(key, value.clone()));
            }
            found.replace(text, written).into()
        }
        3 => {
            let indexed = IndexedJson::from(bytes.clone());
            let found = indexed.find(&[At::Key(key)]);
            if tree.get(key).is_some() {
                expected.members_mut().into_iter().for_each(|members| members.set(key, value.clone()));
            }
            let replaced = indexed.replaced(&found, written);
            for name in NAMES {
                let found = replaced.member(name).and_then(Tree::read);
                assert_eq!(found.as_ref(), expected.get(name), "{name:?} after an edit of {key:?} in {text}");
                assert_eq!(replaced.member(name), json::member(&replaced, name), "{name:?} by index in {text}");
            }
            replaced.into_text()
        }
        _ => {
            let mut edits = Edits::default();
            edits.visit_all(&bytes, &[&[At::Key(key), At::Each], &[At::Key("a"), At::Member]], &mut |_| {
                Some(written.to_owned())
            });
            let visited: &[(&str, bool)] = if key == "a" { &[("a", true)] } else { &[(key, true), ("a", false)] };
            for (name, both) in visited {
                visit(&mut expected, name, &value, *both);
            }
            edits.apply(&bytes)
        }
    };
    let edited = std::str::from_utf8(&edited).expect("text");
    same(edited, &expected, &|| format!("edit {kind} of {key:?} in {text}"));
    if tree.members().is_some() && kind % 5 == 0 {
        let names = Members::of(edited).filter(|(name, _)| fuzzing::is_named(name, key));
        assert_eq!(names.count(), 1, "{key:?} in {edited}");
    }
    let most = text.len() + (written.len() + 1) * (1 + text.len() / 2) + 2 * key.len() + 8;
    assert!(edited.len() <= most, "{} bytes of {}", edited.len(), text.len());
}

/// Sets each element of the member `name`, or each of its members.
fn visit(tree: &mut Tree, name: &str, value: &Tree, is_of_key: bool) {
    let Some(held) = tree.members_mut().filter(|members| members.get(name).is_some()) else { return };
    match held.edit(name) {
        Some(Tree::Array(elements)) if is_of_key => elements.iter_mut().for_each(|element| *element = value.clone()),
        Some(Tree::Object(members)) if name == "a" => {
            let names: Vec<String> = members.last().into_keys().map(str::to_owned).collect();
            for name in names {
                members.set(&name, value.clone());
            }
        }
        _ => {}
    }
}

/// All edits on one draft and one tree.
fn many_edits(text: &str, tree: &Tree, edits: &[[u8; 3]]) {
    let (mut draft, mut expected) = (Draft::of(text), tree.clone());
    let mut written = 0;
    for [kind, key, value] in edits {
        let key = NAMES[usize::from(*key) % NAMES.len()];
        let text = VALUES[usize::from(*value) % VALUES.len()];
        written += text.len() + 2 * key.len() + 8;
        edit(&mut draft, &mut expected, (kind % 12, kind / 12), key, text);
        // what was opened is written as it was
        assert_eq!(draft.len(), draft.text().len());
    }
    let edited = draft.text();
    same(&edited, &expected, &|| format!("edits {edits:?} of {text}"));
    if !draft.is_changed() {
        assert_eq!(edited, text.trim_ascii());
    }
    // at most one value for each element or member, every time
    let most = (text.len() + 8) * (1 + written);
    assert!(edited.len() <= most, "{} bytes of {}", edited.len(), text.len());
}

#[expect(clippy::too_many_lines, reason = "an arm for each edit")]
fn edit(draft: &mut Draft<'_>, tree: &mut Tree, (kind, inner): (u8, u8), key: &str, text: &str) {
    let value = Tree::read(text).expect("a value");
    match kind {
        0 => {
            draft.set(key, text);
            tree.members_mut().into_iter().for_each(|members| members.set(key, value.clone()));
        }
        1 => {
            assert_eq!(draft.remove(key), tree.get(key).is_some());
            tree.members_mut().into_iter().for_each(|members| members.remove(key));
        }
        2 => {
            let new = if key == "b" { "c" } else { "b" };
            draft.rename(key, new);
            tree.members_mut().into_iter().for_each(|members| members.rename(key, new));
        }
        3 => {
            draft.push(text);
            if let Tree::Array(elements) = tree {
                elements.push(value);
            }
        }
        4 => {
            draft.each_element(|element| element.set(key, text));
            if let Tree::Array(elements) = tree {
                elements.iter_mut().filter_map(Tree::members_mut).for_each(|members| members.set(key, value.clone()));
            }
        }
        5 => {
            draft.retain_elements(|element| !element.is_object());
            if let Tree::Array(elements) = tree {
                elements.retain(|element| element.members().is_none());
            }
        }
        6 => {
            draft.split_elements(|element| element.is_array().then(|| vec![text.to_owned(), "7".to_owned()]));
            if let Tree::Array(elements) = tree {
                let split = |element: Tree| match element {
                    Tree::Array(_) => vec![value.clone(), Tree::Literal("7".to_owned())],
                    other => vec![other],
                };
                *elements = std::mem::take(elements).into_iter().flat_map(split).collect();
            }
        }
        7 => {
            draft.each_member(|name, member| {
                if name == key {
                    member.replace(text);
                }
            });
            let members = tree.members_mut().into_iter().flat_map(|members| members.0.iter_mut());
            members.filter(|(name, _)| name == key).for_each(|(_, held)| *held = value.clone());
        }
        8 => {
            draft.add_all(vec![(key.to_owned(), "1".to_owned()), (key.to_owned(), text.to_owned())]);
            if let Tree::Object(members) = tree {
                members.0.push((key.to_owned(), value.clone()));
                let all = Tree::Object(std::mem::take(members));
                members.0 = all.last_of_each();
            }
        }
        9 => {
            draft.split_members(|name, _| (name == key).then(|| vec![("s0".to_owned(), text.to_owned())]));
            if let Tree::Object(members) = tree {
                let last = Tree::Object(std::mem::take(members)).last_of_each();
                let split = |(name, held): (String, Tree)| {
                    if name == key { ("s0".to_owned(), value.clone()) } else { (name, held) }
                };
                members.0 = last.into_iter().map(split).collect();
            }
            assert!(draft.members().filter(|(name, _)| name == "s0").count() <= 1, "{}", draft.text());
        }
        10 => {
            let is_object = draft.is_object();
            let opened = draft.edit_object(key).map(|inner| inner.set("in", text)).is_some();
            assert_eq!(is_object, opened);
            let Some(members) = tree.members_mut() else { return };
            if members.get(key).is_none_or(|held| held.members().is_none()) {
                members.set(key, Tree::Object(super::tree::Members::default()));
            }
            members.edit(key).and_then(Tree::members_mut).into_iter().for_each(|inner| inner.set("in", value.clone()));
        }
        _ => {
            let (below, held) = (draft.edit(key), tree.members_mut().and_then(|members| members.edit(key)));
            assert_eq!(below.is_some(), held.is_some(), "{key:?}");
            if let (Some(below), Some(held)) = (below, held) {
                edit(below, held, (inner % 10, 0), key, text);
            }
        }
    }
}
