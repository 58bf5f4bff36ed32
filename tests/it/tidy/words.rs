//! Names and words: a type name has one meaning in the crate, and a summary line begins with a noun or a verb. Knows no
//! module.

use std::collections::BTreeMap;

use super::{code, sources};

/// Type names with several definitions, and the exact number. The list only shrinks; only `Inner` may repeat.
const REPEATED: &[(&str, usize)] = &[];

/// Maximum number of doc lines in each thousand that open with a question word. It only shrinks.
const MAX_QUESTIONS: usize = 10;

/// Question words: a summary line begins with a noun or a verb in the third person instead.
const QUESTIONS: &[&str] = &["What", "Whether", "Who", "Whose", "Where", "How", "Which", "When"];

#[test]
fn a_type_name_is_defined_once_in_the_crate() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in production_sources() {
        for name in type_definitions(&code(&text)) {
            defined.entry(name).or_default().push(path.clone());
        }
    }
    defined.remove("Inner");
    let mut broken = Vec::new();
    for (name, paths) in &defined {
        let allowed = REPEATED.iter().find(|(repeated, _)| repeated == name).map_or(1, |(_, times)| *times);
        if paths.len() > allowed {
            broken.push(format!("`{name}` is defined in {}: choose another name", paths.join(", ")));
        }
    }
    for (name, times) in REPEATED {
        let found = defined.get(*name).map_or(0, Vec::len);
        if found < *times {
            broken.push(format!("`{name}` is defined {found} times: correct its line in `REPEATED`, or remove it"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn few_doc_lines_open_with_a_question_word() {
    let (mut questions, mut lines) = (0, 0);
    for (_, text) in production_sources() {
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("/// ")) {
            let first = line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            lines += 1;
            questions += usize::from(QUESTIONS.contains(&first));
        }
    }
    let share = questions * 1000 / lines;
    assert!(
        share <= MAX_QUESTIONS,
        "{questions} of {lines} doc lines open with a question word: begin with a noun or a verb"
    );
}

/// Source files without unit tests.
fn production_sources() -> impl Iterator<Item = (String, String)> {
    let is_test = |path: &str| path.split('/').any(|part| part == "tests" || part.starts_with("tests."));
    let without_tests = |text: String| text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
    let production = sources().into_iter().filter(move |(path, _)| !is_test(path));
    production.map(move |(path, text)| (path, without_tests(text)))
}

/// Names of the types that a file defines. An associated `type` in an `impl` or a `trait` does not count.
fn type_definitions(code: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        });
        let (kind, rest) = line.trim_start().split_once(' ')?;
        let is_definition = ["struct", "enum", "trait", "union", "type"].contains(&kind);
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (is_definition && !name.is_empty()).then_some(name)
    };
    let is_associated = |line: &str| line.starts_with(' ') && line.trim_start().starts_with("type ");
    code.lines().filter(|line| !is_associated(line)).filter_map(|line| name(line.trim_start())).collect()
}

#[test]
fn definitions_are_found_and_associated_types_are_not() {
    let code = "pub(super) struct One<T>(T);\nenum Two {}\ntrait Three {\n    type Item;\n}\npub type Four = One<()>;\n\
                fn f() {\n    struct Five;\n}\nimpl Three for Two {\n    type Item = ();\n}\npub structure";
    assert_eq!(type_definitions(code), ["One", "Two", "Three", "Four", "Five"]);
}
