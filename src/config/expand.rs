//! `${NAME}` and `${NAME:-default}` in the strings of a configuration. Knows nothing of files.

use super::environment::Environment;

/// Expansion error. It never holds a variable's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unexpandable {
    /// A variable that is not set and has no default.
    #[error("the environment variable `{0}` is not set")]
    NotSet(String),
    /// Not a variable name in the braces.
    #[error("`${{` must be followed by the name of an environment variable and `}}`")]
    NoName,
    /// `${input:…}`, for which VS Code would ask.
    #[error("`${{input:…}}` needs a person, and a gateway cannot ask one")]
    Input,
}

/// Replaces each `${NAME}` by the variable's value and each `${NAME:-default}` by the value or, if it is not set or
/// empty, by the default; `${env:NAME}` (VS Code) is `${NAME}`; `$${` is a literal `${`. Reports every error.
pub fn expand(text: &str, environment: &Environment) -> Result<String, Vec<Unexpandable>> {
    let mut expanded = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let Some((reference, after)) = after.split_once('}') else {
            faults.push(Unexpandable::NoName);
            rest = "";
            break;
        };
        match resolve(reference, environment) {
            Ok(value) => expanded.push_str(value),
            Err(fault) => faults.push(fault),
        }
        rest = after;
    }
    expanded.push_str(rest);
    if faults.is_empty() { Ok(expanded) } else { Err(faults) }
}

impl Unexpandable {
    /// Advice.
    pub fn advice(&self) -> String {
        match self {
            Self::NotSet(name) => format!("set it, or give a default: `${{{name}:-…}}`"),
            Self::NoName => "for a literal `${` write `$${`".to_owned(),
            Self::Input => "put the value into an environment variable and write `${NAME}`".to_owned(),
        }
    }
}

/// The value of the text between the braces.
fn resolve<'a>(reference: &'a str, environment: &'a Environment) -> Result<&'a str, Unexpandable> {
    if reference.starts_with("input:") {
        return Err(Unexpandable::Input);
    }
    let reference = reference.strip_prefix("env:").unwrap_or(reference);
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let named = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !named {
        return Err(Unexpandable::NoName);
    }
    match (environment.get(name), default) {
        (None | Some(""), Some(default)) => Ok(default),
        (Some(value), _) => Ok(value),
        (None, None) => Err(Unexpandable::NotSet(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Vec<Unexpandable>> {
        expand(text, &[("HOME", "/home/ada"), ("EMPTY", ""), ("TOKEN", "${HOME}")].into_iter().collect())
    }

    #[test]
    fn a_variable_expands_to_its_value_or_its_default() {
        for (text, expected) in [
            ("", ""),
            ("a $ b {c} $d", "a $ b {c} $d"),
            ("${HOME}/x", "/home/ada/x"),
            ("${NONE:-d:-e}${EMPTY:-f}${EMPTY}", "d:-ef"),
            ("${NONE:-}", ""),
            ("${env:HOME}", "/home/ada"),
            ("$${HOME} costs $$", "${HOME} costs $$"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_value_is_not_expanded_again() {
        assert_eq!(expanded("${TOKEN}").as_deref(), Ok("${HOME}"));
    }

    #[test]
    fn every_missing_variable_is_named() {
        let missing = |name: &str| Unexpandable::NotSet(name.to_owned());
        assert_eq!(expanded("${A}${HOME}${B_2}"), Err(vec![missing("A"), missing("B_2")]));
        assert_eq!(expanded("${}"), Err(vec![Unexpandable::NoName]));
        assert_eq!(expanded("${HOME"), Err(vec![Unexpandable::NoName]));
        assert_eq!(expanded("${1}${a b}"), Err(vec![Unexpandable::NoName, Unexpandable::NoName]));
        assert_eq!(expanded("${input:key}"), Err(vec![Unexpandable::Input]));
    }
}
