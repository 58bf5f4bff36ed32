//! Changes to all members of an object, or all elements of an array, in one pass. Keeps only the new text, and only
//! from the first change on.

use super::{
    super::{
        name_of,
        places::{Container, each_place, head_of, written_name},
    },
    Draft, Node, draft_at,
};

/// The change to a member or an element.
enum Fate {
    /// It stays, with the value that it has now.
    Stays,
    Goes,
    /// These replace it: for each, the text before the value, and the value.
    Becomes(Vec<(String, String)>),
}

impl Draft<'_> {
    /// Passes each member, with its name, to `change`.
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

    /// Keeps the members for which `keep` returns true, with any changes.
    pub fn retain_members(&mut self, mut keep: impl FnMut(&str, &mut Draft<'_>) -> bool) {
        self.rewrite(Container::Object, |head, value| Fate::of(keep(&name_of(written_name(head)), value)));
    }

    /// Keeps the elements for which `keep` returns true, with any changes.
    pub fn retain_elements(&mut self, mut keep: impl FnMut(&mut Draft<'_>) -> bool) {
        self.rewrite(Container::Array, |_, value| Fate::of(keep(value)));
    }

    /// Adds an element at the end of an array.
    pub fn push(&mut self, text: &str) {
        let (true, Node::Text(array)) = (self.is_array(), &self.0) else { return };
        let (kept, comma) = if self.is_empty() { (1, "") } else { (array.len() - 1, ",") };
        self.replace([&array[..kept], comma, text, "]"].concat());
    }

    /// Replaces each element by the parts that `parts` returns; with `None` it stays.
    pub fn split_elements(&mut self, mut parts: impl FnMut(&mut Draft<'_>) -> Option<Vec<String>>) {
        self.rewrite(Container::Array, |_, value| match parts(value) {
            Some(parts) => Fate::Becomes(parts.into_iter().map(|text| (String::new(), text)).collect()),
            None => Fate::Stays,
        });
    }

    /// Replaces each member by the members that `parts` returns, as name and JSON text; with `None` it stays. Only the
    /// last of several members with the same name is kept, before and after.
    pub fn split_members(&mut self, mut parts: impl FnMut(&str, &mut Draft<'_>) -> Option<Vec<(String, String)>>) {
        self.keep_last_of_each();
        self.rewrite(Container::Object, |head, value| match parts(&name_of(written_name(head)), value) {
            Some(parts) => Fate::Becomes(parts.into_iter().map(|(name, text)| (head_of(&name), text)).collect()),
            None => Fate::Stays,
        });
        self.keep_last_of_each();
    }

    /// Calls `decide` with each value and the text before it, and applies the decisions. Does nothing to another kind
    /// of value.
    fn rewrite(&mut self, kind: Container, decide: impl FnMut(&str, &mut Draft<'_>) -> Fate) {
        self.close();
        if let Node::Text(text) = &self.0
            && Container::of(text) == Some(kind)
            && let Some(new) = rewritten(text, kind, decide)
        {
            self.replace(new);
        }
    }
}

// === impl Fate ===

impl Fate {
    const fn of(stays: bool) -> Self {
        if stays { Self::Stays } else { Self::Goes }
    }
}

/// The text of a container after `decide` was called with each value and the text before it; `None` if nothing changed.
fn rewritten(text: &str, kind: Container, mut decide: impl FnMut(&str, &mut Draft<'_>) -> Fate) -> Option<String> {
    // the new text, once there is a change, and the number of items so far
    let (mut new, mut count): (Option<String>, usize) = (None, 0);
    each_place(text, kind, |place| {
        let mut value = draft_at(text, place);
        let fate = decide(&text[place.head()], &mut value);
        let is_same = matches!(fate, Fate::Stays) && !value.is_changed();
        if is_same && new.is_none() {
            count += 1;
            return;
        }
        let new = new.get_or_insert_with(|| {
            let mut new = String::with_capacity(text.len());
            // without the comma before this item
            new.push_str(&text[..place.whole().start - usize::from(count > 0)]);
            new
        });
        let mut add = |parts: &mut dyn FnMut(&mut String)| {
            if count > 0 {
                new.push(',');
            }
            parts(new);
            count += 1;
        };
        match fate {
            Fate::Goes => {}
            Fate::Stays if is_same => add(&mut |new| new.push_str(&text[place.whole()])),
            Fate::Stays => add(&mut |new| {
                new.push_str(&text[place.head()]);
                value.write(new);
                new.push_str(&text[place.tail()]);
            }),
            Fate::Becomes(parts) => {
                for (head, text) in parts {
                    add(&mut |new| new.extend([&*head, &*text]));
                }
            }
        }
    });
    let mut new = new?;
    new.push(kind.closing());
    Some(new)
}
