//! References: citations in comments and links in pages have a target. Knows nothing of the pages' content.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The page of requirements and refusals, whose anchors are cited by number.
const AUTHORIZATION: &str = "docs/authorization.md";
/// The page of the map and the design rules.
const ARCHITECTURE: &str = "docs/architecture.md";
/// The page of differences between versions.
const TRANSLATION: &str = "docs/translation.md";

/// Folders and files with citations.
const CITING: &[&str] = &["src", "tests/it", "tests/browser", "migrations", "templates", "benches"];

/// Prefixes of paths in this repository, as pages name them between backticks.
const FOLDERS: &[&str] =
    &["src/", "tests/", "docs/", "migrations/", "templates/", "benches/", "scripts/", "deploy/", ".ci/"];

/// A word of a citation after `translation`.
enum Cited<'a> {
    /// A section or a rule.
    Entry(&'a str),
    /// A word between two entries.
    Between,
    /// Any other word: the end of the citation.
    Other,
}

#[test]
fn every_requirement_that_is_cited_is_in_the_documentation() {
    let known = anchors(&read(AUTHORIZATION));
    let mut broken = Vec::new();
    for (path, text) in citing() {
        for word in words(&text) {
            let Some((kind, number)) = word.split_once('-') else { continue };
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            if ["OA", "UP", "N"].contains(&kind) && is_number && !known.contains(&word.to_lowercase()) {
                broken.push(format!("{path}: {word}"));
            }
        }
    }
    assert!(broken.is_empty(), "not in {AUTHORIZATION}:\n{}", broken.join("\n"));
}

#[test]
fn every_design_rule_that_is_cited_is_in_the_documentation() {
    let page = read(ARCHITECTURE);
    let known: BTreeSet<&str> =
        headings(&page).filter_map(|heading| heading.strip_prefix("Design rule ")?.split(':').next()).collect();
    let mut broken = Vec::new();
    for (path, text) in citing() {
        for rest in prose(&text).split("design rule").skip(1) {
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let end = rest.find(|c: char| !c.is_ascii_digit() && ![' ', ','].contains(&c)).unwrap_or(rest.len());
            let numbers = rest[..end].split([' ', ',']).filter(|number| !number.is_empty());
            broken.extend(numbers.filter(|number| !known.contains(number)).map(|number| format!("{path}: {number}")));
        }
    }
    assert!(broken.is_empty(), "not in {ARCHITECTURE}:\n{}", broken.join("\n"));
}

#[test]
fn every_section_and_rule_of_translation_that_is_cited_is_in_the_documentation() {
    let known = translation_entries();
    let mut broken = Vec::new();
    for (path, text) in citing().into_iter().filter(|(path, _)| is_source(path)) {
        for rest in prose(&text).split("`translation`").skip(1) {
            for word in rest.split_whitespace() {
                let entry = match cited(word) {
                    Cited::Entry(entry) => entry,
                    Cited::Between => continue,
                    Cited::Other => break,
                };
                if !known.contains(entry) {
                    broken.push(format!("{path}: `translation` {entry}"));
                }
                if word.ends_with([')', ';', '.', ':']) {
                    break;
                }
            }
        }
        // tests name the rule that they test
        for line in text.lines().filter(|_| path.starts_with("tests")) {
            let Some(rules) = rules_of(line) else { continue };
            broken.extend(rules.filter(|rule| !known.contains(*rule)).map(|rule| format!("{path}: {rule}")));
        }
    }
    assert!(broken.is_empty(), "not in {TRANSLATION}:\n{}", broken.join("\n"));
}

#[test]
fn every_test_vector_that_is_cited_exists() {
    let known = vectors();
    let mut broken = Vec::new();
    for (path, text) in citing().into_iter().filter(|(path, _)| is_source(path)) {
        broken.extend(
            words(&text).filter(|word| is_vector(word) && !known.contains(*word)).map(|word| format!("{path}: {word}")),
        );
    }
    assert!(broken.is_empty(), "not in tests/vectors:\n{}", broken.join("\n"));
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        for target in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { root().join(&page) } else { beside(&page).join(path) };
            let is_there = match fs::read_to_string(&file) {
                Ok(text) => anchor.is_empty() || anchors(&text).contains(anchor),
                Err(_) => anchor.is_empty() && file.is_dir(),
            };
            if !is_there {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn no_page_has_the_same_anchor_twice() {
    for page in pages() {
        let text = read(&page);
        let mut seen = BTreeSet::new();
        let twice: Vec<&str> = own_anchors(&text).filter(|anchor| !seen.insert(*anchor)).collect();
        assert!(twice.is_empty(), "{page}: {twice:?}");
    }
}

#[test]
fn every_path_that_a_page_names_exists() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        // every second part is between backticks
        for named in text.split('`').skip(1).step_by(2) {
            let is_path = FOLDERS.iter().any(|folder| named.starts_with(folder))
                && named.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let is_pattern = named.contains("NNNN");
            if is_path && !is_pattern && !root().join(named).exists() {
                broken.push(format!("{page}: {named}"));
            }
        }
    }
    assert!(broken.is_empty(), "paths that do not exist:\n{}", broken.join("\n"));
}

#[test]
fn every_item_that_a_page_places_in_a_file_is_there() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        // `Item` … in `file`: every second part is code
        let parts: Vec<&str> = text.split('`').collect();
        for window in parts.windows(3).skip(1).step_by(2) {
            let [item, between, file] = window else { continue };
            let is_item =
                item.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && item.contains(char::is_alphabetic);
            let is_place = [" in ", " of "].contains(between)
                || between.ends_with(" in ") && between.len() < 30 && !between.contains(['.', ',']);
            if !is_item || !is_place || !file.starts_with("src/") || !is_source(file) {
                continue;
            }
            checked += 1;
            if !read(file).contains(item) {
                broken.push(format!("{page}: `{item}` in {file}"));
            }
        }
    }
    assert!(broken.is_empty(), "items that are not there:\n{}", broken.join("\n"));
    assert!(checked > 7, "{checked}");
}

#[test]
fn every_page_that_code_names_exists() {
    let mut broken = Vec::new();
    let others = ["Cargo.toml", "Dockerfile", "lockkeeper.example.toml", "lockkeeper.schema.json", ".ci/run"];
    let files = citing().into_iter().chain(["deploy"].into_iter().flat_map(texts_below));
    let others =
        others.into_iter().filter_map(|path| Some((path.to_owned(), fs::read_to_string(root().join(path)).ok()?)));
    for (path, text) in files.chain(others) {
        for named in text.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-#".contains(c))) {
            let Some(page) = named.strip_prefix("docs/").filter(|page| page.contains(".md")) else { continue };
            let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
            let file = root().join("docs").join(file.trim_end_matches('.'));
            let is_there =
                fs::read_to_string(file).is_ok_and(|text| anchor.is_empty() || anchors(&text).contains(anchor));
            if !is_there {
                broken.push(format!("{path}: {named}"));
            }
        }
    }
    assert!(broken.is_empty(), "pages that do not exist:\n{}", broken.join("\n"));
}

// === citations ===

/// All sections and rules of the page of translation.
fn translation_entries() -> BTreeSet<String> {
    let page = read(TRANSLATION);
    let mut entries = BTreeSet::new();
    for heading in headings(&page) {
        let first = heading.split(' ').next().unwrap_or_default();
        if first.starts_with(|c: char| c.is_ascii_digit()) {
            entries.insert(first.to_owned());
        }
        let rules = heading.split(':').next().unwrap_or_default();
        entries.extend(rules.split([',', ' ']).filter(|rule| is_rule(rule)).map(str::to_owned));
    }
    // rules in other sections are bold
    entries.extend(
        page.split("**").filter_map(|bold| bold.strip_suffix('.')).filter(|rule| is_rule(rule)).map(str::to_owned),
    );
    entries
}

fn cited(word: &str) -> Cited<'_> {
    let entry = word.trim_matches(['(', ')', ',', ';', '.', ':', '`']);
    let is_section = entry.starts_with(|c: char| c.is_ascii_digit())
        && entry.chars().all(|c| c.is_ascii_digit() || ".abcd".contains(c));
    match entry {
        "section" | "to" | "and" => Cited::Between,
        _ if is_section || is_rule(entry) => Cited::Entry(entry),
        _ => Cited::Other,
    }
}

/// True if the word has the form of a rule of translation: `AUD`, `E42`.
fn is_rule(word: &str) -> bool {
    (2..=4).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// True if the word has the form of a test vector: `X12`.
fn is_vector(word: &str) -> bool {
    let (letter, number) = word.split_at_checked(1).unwrap_or_default();
    word.len() == 3 && "GHMNPQRSTX".contains(letter) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rules at the start of a comment: `/// STR and STA: …`, or `// TSK` alone.
fn rules_of(line: &str) -> Option<impl Iterator<Item = &str>> {
    let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim();
    let begin = comment.split(':').next()?;
    let is_rules = begin
        .split([' ', ','])
        .filter(|word| *word != "and" && !word.is_empty())
        .all(|word| is_rule(word) && !is_vector(word));
    // a sentence that begins with an abbreviation does not count
    let is_named = begin.len() < comment.len() || !comment.contains(' ');
    (is_rules && is_named && !begin.is_empty()).then(|| begin.split([' ', ',']).filter(|word| is_rule(word)))
}

fn vectors() -> BTreeSet<String> {
    let texts = texts_below("tests/vectors");
    let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    texts.iter().flat_map(|(_, text)| text.lines().map(id).collect::<Vec<_>>()).collect()
}

// === pages ===

/// All pages of the documentation, and those at the root.
fn pages() -> Vec<String> {
    let docs = texts_below("docs")
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| Path::new(path).extension().is_some_and(|kind| kind == "md"));
    docs.chain(["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"].map(str::to_owned)).collect()
}

/// The headings of a page, without code blocks.
fn headings(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter_map(move |line| {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        (!in_code && heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    })
}

/// The link targets in a page: its headings as GitHub names them, and its own anchors.
fn anchors(page: &str) -> BTreeSet<String> {
    let slug = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    headings(page).map(slug).chain(own_anchors(page).map(str::to_owned)).collect()
}

fn own_anchors(page: &str) -> impl Iterator<Item = &str> {
    page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// The targets of links in a page, without code.
fn links(page: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            targets.extend(line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
    }
    targets
}

// === files ===

fn is_source(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|kind| kind == "rs")
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn beside(page: &str) -> PathBuf {
    root().join(page).parent().unwrap().to_owned()
}

/// All files with citations, and their text.
fn citing() -> Vec<(String, String)> {
    CITING.iter().flat_map(|folder| texts_below(folder)).collect()
}

/// All texts below a folder, by path from the root.
pub(super) fn texts_below(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// The text with multi-line comments joined.
fn prose(text: &str) -> String {
    let line = |line: &str| line.trim().trim_start_matches('/').trim_start_matches('!').trim().to_owned();
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}

/// The words of a text, with ids in one piece.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
}

#[test]
fn citations_are_found_in_the_forms_that_comments_have() {
    let text =
        "/// Says it (`translation` 3.4, LOG) and\n/// (`translation`\n//! section 5); `translation` 4a.3 to 4a.6.";
    let found: Vec<String> = prose(text)
        .split("`translation`")
        .skip(1)
        .flat_map(|rest| {
            let entries = rest.split_whitespace().map_while(|word| match cited(word) {
                Cited::Entry(entry) => Some(entry.to_owned()),
                Cited::Between => Some(String::new()),
                Cited::Other => None,
            });
            entries.filter(|entry| !entry.is_empty()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found, ["3.4", "LOG", "5", "4a.3", "4a.6"]);
    let rules = |line| rules_of(line).map(Iterator::collect::<Vec<_>>);
    assert_eq!(rules("    // TSK"), Some(vec!["TSK"]));
    assert_eq!(rules("/// STR and STA: the first version"), Some(vec!["STR", "STA"]));
    assert_eq!(rules("/// HTTP is known here"), None);
    assert_eq!(
        anchors("## `[clients.<name>]`\n### 4.6 What, now?\n<a id=\"oa-1\"></a>").into_iter().collect::<Vec<_>>(),
        ["46-what-now", "clientsname", "oa-1"]
    );
}
