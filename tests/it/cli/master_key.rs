//! The command for the master key.

use std::{fs, path::Path};

use insta::assert_snapshot;
use lockkeeper::app::DataLock;

use super::{lockkeeper, shown};

/// Runs the program on the data in `folder`, with the master key in `secret`.
fn with_secret(folder: &Path, arguments: &[&str]) -> String {
    let named = folder.join("secret");
    let variables =
        [("LOCKKEEPER_DATA_DIR", folder.to_str().unwrap()), ("LOCKKEEPER_MASTER_KEY_FILE", named.to_str().unwrap())];
    shown(folder, &lockkeeper(folder, arguments, &variables))
}

#[test]
fn a_master_key_that_something_else_provides_is_read_and_never_made() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| with_secret(folder.path(), arguments);
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    assert_snapshot!(refused, @r"
    2
    --- out
    --- err
    error: the gateway cannot run
      the master key file FOLDER/secret, which `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE names, cannot be read, and the gateway does not create it; put the key that belongs to the database there, or remove the setting: No such file or directory (os error 2)
    ");
    assert!(!folder.path().join("secret").exists() && !folder.path().join("master.key").exists());
    fs::write(folder.path().join("secret"), format!("{}\n", "A".repeat(43))).unwrap();
    let mut mode = fs::metadata(folder.path().join("secret")).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(folder.path().join("secret"), mode).unwrap();
    assert!(run(&["keys", "create", "laptop"]).starts_with("0\n"));
    assert!(run(&["signing-keys", "list"]).starts_with("0\n"));
    assert!(!folder.path().join("master.key").exists());
    // the database belongs to this key
    let other = lockkeeper(folder.path(), &["keys", "list", "--data-dir", "."], &[]);
    assert_eq!(other.status.code(), Some(2), "{}", shown(folder.path(), &other));
}

#[test]
fn a_master_key_that_something_else_provides_is_rotated_by_hand_as_the_refusal_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("secret"), "A".repeat(43)).unwrap();
    let run = |arguments: &[&str]| with_secret(folder.path(), arguments);
    assert!(run(&["keys", "create", "laptop"]).starts_with("0\n"));
    assert_snapshot!(run(&["master-key", "rotate"]), @r"
    2
    --- out
    --- err
    error: the master key was not rotated
      it is in FOLDER/secret, which `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE names: the gateway only reads it
    help: stop the gateway; copy FOLDER/secret to FOLDER/master.key, readable only by the gateway's user; remove the setting and run this again; put the new content of FOLDER/master.key where FOLDER/secret comes from; set the setting again and delete FOLDER/master.key
    ");
    fs::copy(file("secret"), file("master.key")).unwrap();
    let rotated = lockkeeper(folder.path(), &["master-key", "rotate", "--data-dir", "."], &[]);
    assert_eq!(rotated.status.code(), Some(0), "{}", shown(folder.path(), &rotated));
    fs::rename(file("master.key"), file("secret")).unwrap();
    assert!(run(&["signing-keys", "list"]).starts_with("0\n"));
}

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
    assert!(text.starts_with("0\n") && text.contains("is replaced"), "{text}");
    assert_ne!(key(), old);
    assert_eq!(run(&["signing-keys", "list"]).status.code(), Some(0));
}
