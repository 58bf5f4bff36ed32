//! Sets of names of a server's tools or methods, as patterns.

use std::fmt;

use globset::{Glob, GlobSet, GlobSetBuilder};

/// A set of names, as patterns: `*` is any text, `?` a character, `[ab]` one of these, `{a,b}` one of these texts.
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
    /// What is wrong with the first that is none.
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
}
