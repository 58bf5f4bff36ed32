//! Sets of names of a server's tools or methods, as patterns.

use std::fmt;

use globset::{Glob, GlobSet, GlobSetBuilder};

/// A set of names, as patterns: `*` is any text, `?` a character, `[ab]` a choice of characters, `{a,b}` a choice of
/// texts.
#[derive(Clone, Default)]
pub struct NameGlobs {
    patterns: Vec<String>,
    set: GlobSet,
}

// === impl NameGlobs ===

impl NameGlobs {
    /// Parses patterns.
    ///
    /// # Errors
    ///
    /// The fault of the first invalid pattern.
    pub fn parse(patterns: Vec<String>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in &patterns {
            set.add(Glob::new(pattern).map_err(|error| error.to_string())?);
        }
        let set = set.build().map_err(|error| error.to_string())?;
        Ok(Self { patterns, set })
    }

    /// True if a pattern fits the whole name.
    pub fn contains(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// True if a pattern may fit a name that begins with `folder` and a slash.
    pub fn reaches_below(&self, folder: &str) -> bool {
        let folder = format!("{folder}/");
        self.patterns.iter().any(|pattern| {
            let literal = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
            literal.starts_with(&folder) || (literal.len() < pattern.len() && folder.starts_with(literal))
        })
    }

    /// True if there is no pattern.
    pub const fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl PartialEq for NameGlobs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for NameGlobs {}

impl fmt::Debug for NameGlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_whole_name_and_slashes_too() {
        let globs = NameGlobs::parse(vec!["skills/*".to_owned()]).unwrap();
        let fits =
            ["skills/list", "skills/a/b", "skills", "x/skills/list", "Skills/list"].map(|name| globs.contains(name));
        assert_eq!(fits, [true, true, false, false, false]);
        assert!(NameGlobs::parse(vec!["[a".to_owned()]).is_err());
    }

    #[test]
    fn a_pattern_reaches_below_a_folder_if_it_may_fit_a_name_there() {
        let reaches = |pattern: &str| NameGlobs::parse(vec![pattern.to_owned()]).unwrap().reaches_below("skills");
        for pattern in ["skills/*", "skills/list", "skills/l?st", "*", "s*", "{skills,events}/list", "[s]kills/list"] {
            assert!(reaches(pattern), "{pattern}");
        }
        for pattern in ["skill", "skills", "events/*", "x/skills/list", "skillset/*"] {
            assert!(!reaches(pattern), "{pattern}");
        }
    }
}
