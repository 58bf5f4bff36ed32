//! A warning about tool names that become too long for some clients, which put their own prefix before them.

use crate::support::first_names;

/// Maximum length of a tool name at the APIs of models, in characters.
const MAX_WITH_PREFIX: usize = 64;
/// The prefix that Claude Code and others write for a gateway that was added as `lockkeeper`.
const PREFIX: &str = "mcp__lockkeeper__";
/// Maximum number of names in the warning.
const SHOWN: usize = 5;

/// The warning about the names that are too long; `None` if none is.
pub(super) fn warning(names: &[String]) -> Option<String> {
    let most = MAX_WITH_PREFIX - PREFIX.len();
    let long: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.chars().count() > most).collect();
    let names = first_names(&long, SHOWN)?;
    Some(format!(
        "tool names longer than {most} characters are refused by clients that write `{PREFIX}` before them: {names}; \
         set `tool_name_length = {most}` in `[limits]`, or shorten them with `rename` in `[servers.<name>.tools]`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_too_long_with_a_prefix_are_told() {
        assert_eq!(warning(&["a".repeat(47)]), None);
        let names: Vec<String> = ('a'..='g').map(|letter| letter.to_string().repeat(48)).collect();
        let told = warning(&names).unwrap();
        assert!(
            told.starts_with(
                "tool names longer than 47 characters are refused by clients that write `mcp__lockkeeper__`"
            ),
            "{told}"
        );
        assert!(
            told.contains(&"e".repeat(48)) && !told.contains(&"f".repeat(48)) && told.contains(" and 2 more;"),
            "{told}"
        );
    }
}
