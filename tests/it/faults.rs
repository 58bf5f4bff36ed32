//! The fault table (`docs/faults.md`): one sick server beside a fine one, and the effect of each fault on the call in
//! flight, on other calls at this server, on other servers, on `tools/list`, and on status and metrics.

mod bench;
mod channels;
mod end;
mod half_open;
mod http;
mod lists;
mod processes;
mod sick;

use std::{fs, path::Path};

#[test]
fn every_row_of_the_page_names_what_shows_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    for folder in ["faults", "backend", "gateway"] {
        for file in fs::read_dir(root.join("tests/it").join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                tests += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let page = fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let is_shown =
        |name: &&str| tests.contains(&format!("mode: \"{name}\"")) || tests.contains(&format!("fn {name}()"));
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Fault ") && !line.starts_with("| Connection "));
    for row in rows {
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        let missing: Vec<&str> = names.into_iter().filter(|name| !is_shown(name)).collect();
        assert!(missing.is_empty(), "no such test: {missing:?}");
    }
}
