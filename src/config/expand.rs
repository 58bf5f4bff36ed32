//! `${NAME}`, `${NAME:-default}` and `${file:PATH}` in the strings of a configuration.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use super::{environment::Environment, text_file};
use crate::{
    model::{CallerText, InvalidSecretName, SecretName, TextPart},
    support::Secret,
};

/// Maximum size of a file whose content is a value, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// Folders within a workspace that hold the settings of an editor.
const EDITOR_FOLDERS: [&str; 6] = [".cursor", ".vscode", ".roo", ".windsurf", ".gemini", ".zed"];

/// Beginnings of references that only an editor can resolve.
const EDITOR_REFERENCES: [&str; 4] = ["config:", "command:", "extensionInstallFolder:", "workspaceFolder:"];

/// The values that the references of a text stand for.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceSources<'a> {
    pub environment: &'a Environment,
    /// The folder of relative paths.
    pub folder: &'a Path,
    /// A person's answers for `${input:…}`, by name.
    pub inputs: &'a BTreeMap<String, Secret>,
}

/// Expansion error. It never contains a variable's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unexpandable {
    /// A variable that is not set and has no default.
    #[error("the environment variable `{0}` is not set")]
    NotSet(String),
    /// Not a variable name in the braces.
    #[error("`${{` must be followed by the name of an environment variable and `}}`")]
    NoName,
    /// A file that cannot be read as a value.
    #[error("the file `{file}` {why}")]
    File {
        /// Its name in the configuration.
        file: String,
        /// The end of the sentence.
        why: String,
    },
    /// `${user}` in a text that is the same for every caller.
    #[error("`${{user}}` is the user who calls, and this is the same for all users")]
    Caller,
    /// `${secret:…}` in such a text.
    #[error("`${{secret:{0}}}` is entered by each user, and this is the same for all users")]
    UserSecret(SecretName),
    /// `${secret:…}` with an invalid name.
    #[error("`${{secret:` must be followed by a name and `}}`: {0}")]
    NoSecretName(InvalidSecretName),
    /// An `${input:…}` without an answer.
    #[error("`${{input:{0}}}` needs a person to answer")]
    Input(String),
    /// A reference that only an editor can resolve, such as `${config:…}`.
    #[error("`${{{0}}}` has a value only in the editor")]
    Editor(String),
}

/// Replaces each `${NAME}` by the variable's value and each `${NAME:-default}` by the value or, if it is not set or
/// empty, by the default. `${env:NAME}` (VS Code) is `${NAME}`, and folders have their names from editors;
/// `${file:PATH}` is the content of a file of at most 64 KiB, without the final line end; `$${` is a literal `${`.
/// Reports every error.
pub fn expand(text: &str, sources: ReferenceSources<'_>) -> Result<String, Vec<Unexpandable>> {
    let mut expanded = String::with_capacity(text.len());
    let mut faults = Vec::new();
    for part in split(text) {
        match part.and_then(|part| part.resolve(sources)) {
            Ok(ResolvedPart::Text(text)) => expanded.push_str(&text),
            Ok(ResolvedPart::User) => faults.push(Unexpandable::Caller),
            Ok(ResolvedPart::Secret(name)) => faults.push(Unexpandable::UserSecret(name)),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(expanded) } else { Err(faults) }
}

/// The same for a text that may differ between callers: `${user}` is the calling user, and `${secret:NAME}` the value
/// that user entered.
pub fn expand_for_callers(text: &str, sources: ReferenceSources<'_>) -> Result<CallerText, Vec<Unexpandable>> {
    let (mut parts, mut faults) = (Vec::new(), Vec::new());
    for part in split(text) {
        match part.and_then(|part| part.resolve(sources)) {
            Ok(ResolvedPart::Text(text)) => parts.push(TextPart::Fixed(Secret::new(text))),
            Ok(ResolvedPart::User) => parts.push(TextPart::User),
            Ok(ResolvedPart::Secret(name)) => parts.push(TextPart::Secret(name)),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(CallerText::new(parts)) } else { Err(faults) }
}

/// A part of a text.
enum SourcePart<'a> {
    Literal(&'a str),
    /// The text between the braces.
    Reference(&'a str),
}

/// A resolved part of a text.
enum ResolvedPart<'a> {
    Text(Cow<'a, str>),
    User,
    Secret(SecretName),
}

/// The parts of a text, in order. Nothing follows an error.
fn split(text: &str) -> Vec<Result<SourcePart<'_>, Unexpandable>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if before.ends_with('$') {
            parts.extend([Ok(SourcePart::Literal(&rest[..at - 1])), Ok(SourcePart::Literal("${"))]);
            rest = after;
            continue;
        }
        parts.push(Ok(SourcePart::Literal(before)));
        let Some((reference, after)) = after.split_once('}') else {
            parts.push(Err(Unexpandable::NoName));
            return parts;
        };
        parts.push(Ok(SourcePart::Reference(reference)));
        rest = after;
    }
    parts.push(Ok(SourcePart::Literal(rest)));
    parts
}

// === impl SourcePart ===

impl<'a> SourcePart<'a> {
    fn resolve(self, sources: ReferenceSources<'a>) -> Result<ResolvedPart<'a>, Unexpandable> {
        match self {
            Self::Literal(text) => Ok(ResolvedPart::Text(text.into())),
            Self::Reference("user") => Ok(ResolvedPart::User),
            Self::Reference(reference) => match reference.strip_prefix("secret:") {
                Some(name) => SecretName::parse(name).map(ResolvedPart::Secret).map_err(Unexpandable::NoSecretName),
                None => resolve(reference, sources).map(ResolvedPart::Text),
            },
        }
    }
}

impl Unexpandable {
    pub fn advice(&self) -> String {
        match self {
            Self::NotSet(name) => format!("set it, or give a default: `${{{name}:-…}}`"),
            Self::NoName => "for a literal `${` write `$${`".to_owned(),
            Self::Caller => {
                "write it into `env`, `args` or `headers` of a server, or `${env:user}` for a variable of that name"
                    .to_owned()
            }
            Self::UserSecret(_) => {
                "write it into `env`, `args` or `headers` of a server, or the value of all into `${NAME}` or `${file:PATH}`"
                    .to_owned()
            }
            Self::NoSecretName(_) => "choose another name".to_owned(),
            Self::File { .. } => {
                "check its name and its permissions; a relative path counts from the folder of the configuration"
                    .to_owned()
            }
            Self::Input(_) => {
                "start on a terminal, which asks, or put the value into an environment variable and write `${NAME}`"
                    .to_owned()
            }
            Self::Editor(_) => "write the value itself".to_owned(),
        }
    }
}

/// The value of the text between the braces.
fn resolve<'a>(reference: &'a str, sources: ReferenceSources<'a>) -> Result<Cow<'a, str>, Unexpandable> {
    if let Some(file) = reference.strip_prefix("file:") {
        return content(file, sources.folder).map(Cow::Owned);
    }
    if let Some(id) = reference.strip_prefix("input:") {
        let answer = sources.inputs.get(id).ok_or_else(|| Unexpandable::Input(id.to_owned()))?;
        return Ok(answer.expose().to_owned().into());
    }
    if let Some(value) = of_editor(reference, sources) {
        return Ok(value.into());
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
        let is_editors = EDITOR_REFERENCES.iter().any(|prefix| reference.starts_with(prefix));
        return Err(if is_editors { Unexpandable::Editor(reference.to_owned()) } else { Unexpandable::NoName });
    }
    match (sources.environment.get(name), default) {
        (None | Some(""), Some(default)) => Ok(default.into()),
        (Some(value), _) => Ok(value.into()),
        (None, None) => Err(Unexpandable::NotSet(name.to_owned())),
    }
}

/// Editors' names for folders (Cursor, VS Code).
fn of_editor(reference: &str, sources: ReferenceSources<'_>) -> Option<String> {
    // such as `.vscode/mcp.json`
    let is_editors = |folder: &&Path| EDITOR_FOLDERS.iter().any(|name| folder.ends_with(name));
    let workspace = Some(sources.folder).filter(is_editors).and_then(Path::parent).unwrap_or(sources.folder);
    Some(match reference {
        "workspaceFolder" | "workspaceRoot" | "cwd" => workspace.display().to_string(),
        "workspaceFolderBasename" => workspace.file_name()?.to_string_lossy().into_owned(),
        "userHome" => sources.environment.get("HOME").or_else(|| sources.environment.get("USERPROFILE"))?.to_owned(),
        "pathSeparator" | "/" => std::path::MAIN_SEPARATOR_STR.to_owned(),
        _ => return None,
    })
}

/// The content of a file, without the final line end.
fn content(file: &str, folder: &Path) -> Result<String, Unexpandable> {
    let mut text = text_file::read(&folder.join(file), LONGEST_FILE)
        .map_err(|why| Unexpandable::File { file: file.to_owned(), why })?;
    let end = text.strip_suffix('\n').map_or(text.len(), |text| text.strip_suffix('\r').unwrap_or(text).len());
    text.truncate(end);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CallerIdentity, UserId};

    fn expanded(text: &str) -> Result<String, Vec<Unexpandable>> {
        let environment = [("HOME", "/home/ada"), ("EMPTY", ""), ("TOKEN", "${HOME}")].into_iter().collect();
        let inputs = [("key".to_owned(), Secret::new("answer"))].into();
        expand(text, ReferenceSources { environment: &environment, folder: Path::new("/none"), inputs: &inputs })
    }

    #[test]
    fn a_file_is_its_content_without_the_last_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::default();
        let inputs = BTreeMap::new();
        let sources = ReferenceSources { environment: &environment, folder: folder.path(), inputs: &inputs };
        for (content, expected) in [("key", "key"), ("key\r\n", "key"), ("a\n\n", "a\n"), ("${X}\n", "${X}"), ("", "")]
        {
            std::fs::write(folder.path().join("secret"), content).unwrap();
            assert_eq!(expand("Bearer ${file:secret}", sources), Ok(format!("Bearer {expected}")));
        }
        std::fs::write(folder.path().join("secret"), vec![b'x'; (64 << 10) + 1]).unwrap();
        for (file, why) in
            [("secret", "is longer than 64 KiB"), ("none", "cannot be read"), (".", "is not a regular file")]
        {
            let [fault] = &expand(&format!("${{file:{file}}}"), sources).unwrap_err()[..] else { panic!("{file}") };
            assert!(fault.to_string().contains(&format!("the file `{file}` {why}")), "{fault}");
        }
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
        assert_eq!(expanded("${input:key}").as_deref(), Ok("answer"));
        assert_eq!(expanded("${input:none}"), Err(vec![Unexpandable::Input("none".to_owned())]));
    }

    #[test]
    fn the_caller_stands_in_texts_that_may_differ() {
        let environment = [("user", "root"), ("KEY", "k")].into_iter().collect();
        let inputs = BTreeMap::new();
        let sources = ReferenceSources { environment: &environment, folder: Path::new("/none"), inputs: &inputs };
        let text = expand_for_callers("$${user} ${KEY}:${user}/${env:user}", sources).unwrap();
        let ann = CallerIdentity { user: UserId::new("ann"), client: None };
        assert_eq!(text.for_caller(&ann).expose(), "${user} k:ann/root");
        assert_eq!(text.for_gateway().expose(), "${user} k:%28gateway%29/root");
        assert!(!expand_for_callers("${KEY}", sources).unwrap().is_of_caller());
        assert_eq!(expand("${user}", sources), Err(vec![Unexpandable::Caller]));
    }

    #[test]
    fn a_secret_of_each_user_is_known_by_its_name_alone() {
        let (environment, inputs) = (Environment::default(), BTreeMap::new());
        let sources = ReferenceSources { environment: &environment, folder: Path::new("/none"), inputs: &inputs };
        let name = SecretName::parse("API_KEY").unwrap();
        let text = expand_for_callers("Bearer ${secret:API_KEY}", sources).unwrap();
        assert_eq!(text.secret_names().collect::<Vec<_>>(), [&name]);
        assert_eq!(expand("${secret:API_KEY}", sources), Err(vec![Unexpandable::UserSecret(name)]));
        let wrong = Err(vec![Unexpandable::NoSecretName(InvalidSecretName)]);
        assert_eq!(expand_for_callers("${secret:}", sources), wrong);
        assert_eq!(expand_for_callers("${secret:a b}", sources), wrong);
    }
}
