//! The page of isolation (`docs/isolation.md`): it names every bound and every async lock of the code with its file, every
//! table of the store, and a test for every row or that there is none.

use std::collections::BTreeSet;

use sqlx::{SqlitePool, migrate::Migrator};

use super::{
    code,
    references::{read, root, texts_below},
    sources,
};

/// The page.
const PAGE: &str = "docs/isolation.md";

/// The number of cells in a row.
const CELLS: usize = 6;

/// The words of a row without a test.
const WITHOUT_TEST: &str = "no test";

#[test]
fn every_bound_of_the_code_is_on_the_page_of_isolation_and_no_other() {
    let of_file = |(path, text): &(String, String)| {
        let path = format!("src/{path}");
        bounds(&code(text)).map(|name| (path.clone(), name)).collect::<Vec<_>>()
    };
    let in_code: BTreeSet<_> = sources().iter().flat_map(of_file).collect();
    assert!(in_code.len() > 100, "the bounds were not found");
    let cited = cited_bounds(&read(PAGE)).unwrap();
    let missing: Vec<_> = in_code.difference(&cited).collect();
    assert!(missing.is_empty(), "write into {PAGE} what these bound, as `NAME` in `FILE`: {missing:#?}");
    let gone: Vec<_> = cited.difference(&in_code).collect();
    assert!(gone.is_empty(), "{PAGE} names bounds that do not exist: {gone:#?}");
}

#[tokio::test]
async fn every_table_of_the_store_is_on_the_page_of_isolation_and_no_other() {
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    Migrator::new(root().join("migrations")).await.unwrap().run(&pool).await.unwrap();
    let select =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '_sqlx%'";
    let stored: Vec<String> = sqlx::query_scalar(select).fetch_all(&pool).await.unwrap();
    let stored: BTreeSet<_> = stored.into_iter().collect();
    assert_eq!(stored, cited_tables(&read(PAGE)), "the tables of the store, and those of {PAGE}");
}

#[test]
fn every_file_with_an_async_lock_is_in_the_table_of_them_and_no_other() {
    let is_lock = |line: &str| {
        let is_type =
            ["tokio::sync::Mutex<", "AsyncMutex<", "Arc<Mutex<()>>", "Semaphore>", ": Semaphore", "OnceCell<"];
        !line.starts_with("use ") && is_type.iter().any(|name| line.contains(name))
    };
    let of_file =
        |(path, text): &(String, String)| code(text).lines().any(|line| is_lock(line.trim())).then(|| path.clone());
    let in_code: BTreeSet<String> =
        sources().iter().filter_map(of_file).filter(|path| path != "storage/template.rs").collect();
    let page = read(PAGE);
    let table = page.split("## Async locks").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the table");
    let cited = table.split('`').filter_map(|word| word.strip_prefix("src/")).map(str::to_owned).collect();
    assert_eq!(in_code, cited, "the files with async locks, and those in the table of {PAGE}");
}

#[test]
fn every_row_of_the_page_of_isolation_names_its_test_or_says_that_there_is_none() {
    let tests: String = ["src", "tests/it"].into_iter().flat_map(texts_below).map(|(_, text)| text).collect();
    let mut broken = Vec::new();
    let page = read(PAGE);
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| What ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() != CELLS || cells.contains(&"") {
            broken.push(format!("a row has {CELLS} cells: {row}"));
            continue;
        }
        let named: Vec<&str> = cells[CELLS - 1].split('`').skip(1).step_by(2).collect();
        if named.is_empty() && cells[CELLS - 1] != WITHOUT_TEST {
            broken.push(format!("`{}` names no test: write \"{WITHOUT_TEST}\" if there is none", cells[0]));
        }
        let is_unknown = |name: &&&str| !tests.contains(&format!("fn {name}()"));
        broken.extend(named.iter().filter(is_unknown).map(|name| format!("no such test: {name}")));
    }
    assert!(broken.is_empty(), "{PAGE}:\n{}", broken.join("\n"));
}

#[test]
fn every_limit_on_the_page_of_isolation_can_be_configured() {
    let (page, keys) = (read(PAGE), read("docs/configuration.md"));
    let sections = ["limits.", "auth."];
    let named = page.split('`').skip(1).step_by(2);
    let unknown: Vec<&str> = named
        .filter_map(|code| sections.iter().find_map(|section| code.strip_prefix(section)))
        .filter(|key| !keys.contains(&format!("| `{key}` |")))
        .collect();
    assert!(unknown.is_empty(), "{PAGE} names keys that the configuration does not have: {unknown:?}");
}

/// The names of the constants `MAX_…`.
fn bounds(code: &str) -> impl Iterator<Item = String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    code.split("const ").skip(1).map(name).filter(|name| is_bound(name))
}

fn is_bound(name: &str) -> bool {
    name.starts_with("MAX_") && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The constants on the page, with the file that follows them. The error names one that no file follows.
fn cited_bounds(page: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut cited = BTreeSet::new();
    // a list may go on in the next line, a row of a table may not
    for part in page.split("\n- ").flat_map(|item| item.split("\n|")) {
        let mut names = Vec::new();
        for code in part.split('`').skip(1).step_by(2) {
            if is_bound(code) {
                names.push(code);
            } else if code.starts_with("src/") {
                cited.extend(names.drain(..).map(|name| (code.to_owned(), name.to_owned())));
            }
        }
        if let Some(name) = names.first() {
            return Err(format!("{PAGE}: no file follows `{name}`"));
        }
    }
    Ok(cited)
}

/// The names after "table" and "tables".
fn cited_tables(page: &str) -> BTreeSet<String> {
    let mut cited = BTreeSet::new();
    let after = page.split("table `").skip(1).chain(page.split("tables `").skip(1));
    for mut rest in after {
        while let Some((name, following)) = rest.split_once('`') {
            cited.insert(name.to_owned());
            let next = following.strip_prefix(", `").or_else(|| following.strip_prefix(" and `"));
            let Some(next) = next else { break };
            rest = next;
        }
    }
    cited
}

#[test]
fn bounds_and_tables_are_found_as_the_page_writes_them() {
    let page = "| a, tables `one`, `two` and `three` | `MAX_A` and `MAX_B` in `src/a.rs`; `MAX_C` in `src/b.rs` |\n\
                - `MAX_D` in\n  `src/c.rs`";
    let cited = cited_bounds(page).unwrap();
    let pairs = [("src/a.rs", "MAX_A"), ("src/a.rs", "MAX_B"), ("src/b.rs", "MAX_C"), ("src/c.rs", "MAX_D")];
    assert_eq!(cited, pairs.map(|(file, name)| (file.to_owned(), name.to_owned())).into());
    assert_eq!(cited_tables(page), ["one", "two", "three"].map(str::to_owned).into());
    assert!(cited_bounds("`MAX_E` of nothing").is_err());
    let code = "pub(super) const MAX_ONE: usize = 1;\nconst fn MAX() {}\nconst OTHER: usize = MAX_TWO;";
    assert_eq!(bounds(code).collect::<Vec<_>>(), ["MAX_ONE"]);
}
