//! The commands for signing keys.

use serde_json::Value;

use super::{lockkeeper, shown};

#[test]
fn oa_134_signing_keys_are_listed_rotated_and_retired() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = lockkeeper(folder.path(), arguments, &[("LOCKKEEPER_DATA_DIR", data)]);
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", shown(folder.path(), &output));
        output
    };
    let list = || {
        serde_json::from_slice::<Value>(&run(&["signing-keys", "list", "--json"]).stdout).unwrap()["signing_keys"]
            .take()
    };
    run(&["keys", "create", "laptop"]);
    let first = list();
    assert_eq!((first.as_array().unwrap().len(), &first[0]["use"]), (1, &"active".into()));

    run(&["signing-keys", "rotate"]);
    assert_eq!(list()[1]["use"], "next");
    run(&["signing-keys", "retire", first[0]["id"].as_str().unwrap()]);
    let uses: Vec<Value> = list().as_array().unwrap().iter().map(|key| key["use"].clone()).collect();
    assert_eq!(uses, ["ended", "active", "next"]);
    let table = String::from_utf8(run(&["signing-keys", "list"]).stdout).unwrap();
    assert!(table.contains("(ended)") && table.contains("SIGNS FROM"), "{table}");
}
