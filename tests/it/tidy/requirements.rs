//! Requirements: each has a test of its name, or is on the list of what is not built. Knows nothing of what they say.

use std::{collections::BTreeSet, path::Path, process::Command};

/// Numbers whose tests have other names, or that tests of other numbers cover. The list only shrinks.
const UNNAMED: &[&str] = &[];

#[test]
fn every_requirement_has_a_test_of_its_name_or_is_listed_as_not_built() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/requirements");
    let output = Command::new("python3").arg(script).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let missing: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("without either"))
        .flat_map(|line| line.split(' ').skip(3))
        .collect();
    let unknown: Vec<_> = missing.iter().filter(|number| !UNNAMED.contains(number)).collect();
    assert!(unknown.is_empty(), "name a test after each, or list it in docs/authorization.md: {unknown:?}");
}
