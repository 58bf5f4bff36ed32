//! The command for the master key.

use std::fs;

use lockkeeper::app::DataLock;

use super::{lockkeeper, shown};

#[test]
fn oa_134_the_master_key_is_rotated_unless_a_gateway_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let run = |arguments: &[&str]| lockkeeper(folder.path(), arguments, &[("LOCKKEEPER_DATA_DIR", data)]);
    assert_eq!(run(&["master-key", "rotate"]).status.code(), Some(1), "nothing is there");
    run(&["keys", "create", "laptop"]);
    let key = || fs::read_to_string(folder.path().join("master.key")).unwrap();
    let old = key();
    let lock = DataLock::take(folder.path()).unwrap();
    let refused = run(&["master-key", "rotate"]);
    let text = shown(folder.path(), &refused);
    assert!(text.starts_with("1\n") && text.contains("another gateway uses the data folder"), "{text}");
    assert_eq!(key(), old);
    drop(lock);
    let rotated = run(&["master-key", "rotate"]);
    let text = shown(folder.path(), &rotated);
    assert!(text.starts_with("0\n") && text.contains("the master key is replaced"), "{text}");
    assert_ne!(key(), old);
    assert_eq!(run(&["signing-keys", "list"]).status.code(), Some(0));
}
