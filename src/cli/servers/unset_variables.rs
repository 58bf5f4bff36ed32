//! Variables that a configuration file refers to and this process lacks. A command that edits the file need not have
//! the gateway's environment.

use std::collections::BTreeSet;

use crate::config::Environment;

/// The value of an unset variable while the file is checked.
const PLACEHOLDER: &str = "unset";

/// The unset variables that `text` refers to without a default.
pub(super) fn unset(text: &str, environment: &Environment) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // `$${` is a literal `${`
    let text = text.replace("$${", "");
    for rest in text.split("${").skip(1) {
        let Some((name, _)) = rest.split_once('}') else { continue };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name && name != "user" && environment.get(name).is_none() {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The environment, with a placeholder for each unset variable in `text`.
pub(super) fn filled(environment: &Environment, text: &str) -> Environment {
    let names = unset(text, environment);
    names.into_iter().fold(environment.clone(), |environment, name| environment.with(&name, PLACEHOLDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_without_value_and_default_is_found() {
        let environment: Environment = [("SET", "x")].into_iter().collect();
        let text = "a = '${SET} ${KEY} ${env:OTHER} ${NONE:-x} ${file:/a} ${secret:b} ${user} $${LITERAL} ${KEY}'";
        assert_eq!(unset(text, &environment), ["KEY".to_owned(), "OTHER".to_owned()].into());
        assert!(unset(text, &filled(&environment, text)).is_empty());
    }
}
