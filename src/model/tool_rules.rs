//! An operator's rules for the tools of one server: which are offered, their names, descriptions and default arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{NameGlobs, config_key::config_keys};

config_keys! {
    /// The rules for the tools of one server. Patterns and keys are the server's own names.
    pub struct ToolRules, taken at reload, made of (
        /// Other names; the first match counts.
        rename: Vec<Renaming>,
        /// Other descriptions.
        descriptions: BTreeMap<String, String>,
        /// Arguments added to calls that lack these names.
        arguments: BTreeMap<String, Map<String, Value>>,
    ) {
        /// The tools to offer, as patterns: `*` is any text, `?` a character, `[ab]` a choice of characters, `{a,b}` a
        /// choice of texts. Without it: all.
        allow: Option<NameGlobs> = optional_patterns("[\"read_*\", \"list_*\"]");
        /// Tools not to offer, even if allowed; patterns as in `allow`.
        deny: NameGlobs = patterns("[\"*_secret\"]");
        /// With `true`, only tools whose annotation `readOnlyHint` is true.
        read_only: WritingTools = flag(false => WritingTools::Offered, true => WritingTools::LeftOut);
    }
}

/// Treatment of tools without the annotation `readOnlyHint: true`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WritingTools {
    /// Offered like the others.
    #[default]
    Offered,
    LeftOut,
}

/// A renaming of tools. The text matched by a `*` is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renaming {
    from: NamePattern,
    to: NamePattern,
}

/// A name, or the texts before and after a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamePattern {
    Whole(String),
    Around(String, String),
}

// === impl ToolRules ===

impl Default for ToolRules {
    fn default() -> Self {
        Self::with_defaults(Vec::new(), BTreeMap::new(), BTreeMap::new())
    }
}

impl ToolRules {
    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a tool of this own name is offered, as far as names decide.
    pub fn offers(&self, own: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(own)) && !self.deny.contains(own)
    }

    /// The own name of the tool that clients see under this name; `None` if its name is left out.
    pub fn offered(&self, shown: &str) -> Option<String> {
        self.own(shown).filter(|own| self.offers(own))
    }

    /// The name that clients see.
    pub fn shown(&self, own: &str) -> String {
        self.rename.iter().find_map(|one| one.from.moved(own, &one.to)).unwrap_or_else(|| own.to_owned())
    }

    /// The own name of the tool that clients see under this name; `None` if no tool can have it.
    pub fn own(&self, shown: &str) -> Option<String> {
        let renamed = self.rename.iter().filter_map(|one| one.to.moved(shown, &one.from));
        renamed.chain([shown.to_owned()]).find(|own| self.shown(own) == shown)
    }
}

// === impl Renaming ===

impl Renaming {
    /// A renaming of `from` to `to`.
    ///
    /// # Errors
    ///
    /// If the number of `*` differs, or is above one.
    pub fn parse(from: &str, to: &str) -> Result<Self, String> {
        let (from, to) = (NamePattern::parse(from)?, NamePattern::parse(to)?);
        match (&from, &to) {
            (NamePattern::Whole(_), NamePattern::Whole(_)) | (NamePattern::Around(..), NamePattern::Around(..)) => {
                Ok(Self { from, to })
            }
            _ => Err("both names need a `*`, or none".to_owned()),
        }
    }
}

// === impl NamePattern ===

impl NamePattern {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('*') {
            _ if text.is_empty() => Err("a name cannot be empty".to_owned()),
            None => Ok(Self::Whole(text.to_owned())),
            Some((_, after)) if after.contains('*') => Err("a name has one `*` at most".to_owned()),
            Some((before, after)) => Ok(Self::Around(before.to_owned(), after.to_owned())),
        }
    }

    /// The name matching this pattern, turned into a name of the other; `None` if it does not match.
    fn moved(&self, name: &str, other: &Self) -> Option<String> {
        match (self, other) {
            (Self::Whole(whole), Self::Whole(other)) => (whole == name).then(|| other.clone()),
            (Self::Around(before, after), Self::Around(start, end)) => {
                let kept = name.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                (!kept.is_empty()).then(|| format!("{start}{kept}{end}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str]) -> NameGlobs {
        NameGlobs::parse(patterns.iter().map(|&pattern| pattern.to_owned()).collect()).unwrap()
    }

    #[test]
    fn tools_are_allowed_and_denied_by_pattern() {
        let rules =
            ToolRules { allow: Some(names(&["read_*", "list"])), deny: names(&["*_secret"]), ..ToolRules::default() };
        let offered = ["read_file", "read_secret", "list", "lists", "write"].map(|name| rules.offers(name));
        assert_eq!(offered, [true, false, true, false, false]);
        assert!(ToolRules::default().offers("anything") && ToolRules::default().is_empty());
        assert!(!rules.is_empty());
    }

    #[test]
    fn a_name_is_changed_and_found_again() {
        let rename = [("browser_*", "web_*"), ("get", "fetch"), ("web_x", "other")];
        let rename = rename.iter().map(|(from, to)| Renaming::parse(from, to).unwrap()).collect();
        let rules = ToolRules { rename, ..ToolRules::default() };
        for (own, shown) in [("browser_click", "web_click"), ("get", "fetch"), ("put", "put"), ("web_x", "other")] {
            assert_eq!((rules.shown(own).as_str(), rules.own(shown).as_deref()), (shown, Some(own)));
        }
        for gone in ["browser_click", "get"] {
            assert_eq!(rules.own(gone), None, "it has another name");
        }
    }

    #[test]
    fn patterns_that_cannot_be_followed_are_refused() {
        for (from, to) in [("a*", "b"), ("a", "b*"), ("a**", "b*"), ("", "b")] {
            assert!(Renaming::parse(from, to).is_err(), "{from} {to}");
        }
    }
}
