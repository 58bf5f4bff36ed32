//! The command for the audit trail.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use super::{command, lockkeeper, shown};

#[test]
fn oa_134_the_audit_trail_is_printed_filtered_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let variables = [("LOCKKEEPER_DATA_DIR", data)];
    let run = |arguments: &[&str]| {
        let output = lockkeeper(folder.path(), arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", shown(folder.path(), &output));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["keys", "create", "laptop", "--user", "ann"]);
    run(&["keys", "create", "phone", "--user", "bob"]);
    let all = run(&["audit"]);
    assert_eq!(all.lines().filter(|line| line.contains("  key_created  by=\"operator ")).count(), 2, "{all}");
    assert!(
        all.starts_with("20") && all.contains("kind=key  name=laptop  rights=\"all servers\"  user=ann\n"),
        "{all}"
    );
    let of_ann = run(&["audit", "--user", "ann", "--since", "1h", "--json"]);
    let event: Value = serde_json::from_str(of_ann.trim_end()).unwrap();
    assert_eq!(
        (&event["event"], &event["user"], &event["kind"]),
        (&"key_created".into(), &"ann".into(), &"key".into())
    );
    assert_eq!((&event["name"], &event["rights"]), (&"laptop".into(), &"all servers".into()));
    assert_eq!(run(&["audit", "--limit", "1", "--json"]).lines().count(), 1);
    assert_eq!(run(&["audit", "--event", "denial"]), "");

    // a key that is a user has its name, and is found by it
    let own = run(&["keys", "create", "desk"]);
    let id = own.split('_').nth(1).unwrap();
    let of_desk = run(&["audit", "--user", "desk"]);
    assert!(of_desk.lines().count() == 1 && of_desk.contains(&format!("user=\"key:{id} (desk)\"")), "{of_desk}");
    let of_desk: Value = serde_json::from_str(&run(&["audit", "--user", "desk", "--json"])).unwrap();
    assert_eq!((&of_desk["user"], &of_desk["key_name"]), (&format!("key:{id}").into(), &"desk".into()));

    let mut following = command(folder.path(), &["audit", "--follow", "--event", "key_revoked"], &variables);
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let id = event["key"].as_str().unwrap();
    run(&["keys", "revoke", id]);
    let mut line = String::new();
    BufReader::new(following.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(
        line.contains("  key_revoked  by=\"operator ")
            && line.ends_with(&format!("  key=\"{id} (laptop)\"  user=ann\n")),
        "{line}"
    );
    following.kill().unwrap();
    following.wait().unwrap();
}
