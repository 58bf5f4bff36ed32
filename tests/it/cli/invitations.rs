//! Invitations, rights that change, and users who leave, on the command line.

use serde_json::Value;

use super::{Output, Path, lockkeeper, shown};

/// A data folder for the program, with a configuration.
struct Folder(tempfile::TempDir);

const CONFIG: &str = r#"
public_url = "https://mcp.example.com"
[servers.docs]
builtin = "demo"
[servers.git]
url = "https://git.example.com/mcp"
[groups.work]
servers = ["git"]
[login.corp]
issuer = "https://id.example.com"
client_id = "lockkeeper"
domains = ["example.com"]
"#;

impl Folder {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        lockkeeper(self.path(), arguments, &[("LOCKKEEPER_DATA_DIR", self.path().to_str().unwrap())])
    }

    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{}", shown(self.path(), &output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.out(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs what fails; returns what it says.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{}", shown(self.path(), &output));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The id of a new key.
    fn key(&self, arguments: &[&str]) -> String {
        self.json(&[&["keys", "create"], arguments].concat())["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn oa_155_a_link_is_printed_alone_and_listed_without_its_secret() {
    let folder = Folder::new(CONFIG);
    let link = folder.out(&["invite", "ann", "--server", "docs", "--group", "work:read", "--key-expires", "90d"]);
    assert!(link.starts_with("https://mcp.example.com/invite?i=lkv_") && link.lines().count() == 1, "{link}");
    let listed = folder.json(&["invitations", "list"])["invitations"].take();
    let one = &listed[0];
    assert_eq!((&one["user"], &one["state"], &one["further"]), (&"ann".into(), &"open".into(), &false.into()));
    assert_eq!(one["rights"]["servers"]["only"], serde_json::json!({ "docs": "full", "work": "read-only" }));
    assert!(one["created_by"].as_str().unwrap().starts_with("operator "), "{one}");
    assert!(!listed.to_string().contains("lkv_"));
    assert!(folder.out(&["invitations", "list"]).contains("ann"));
    folder.out(&["invitations", "revoke", one["id"].as_str().unwrap()]);
    assert_eq!(folder.json(&["invitations", "list"]), serde_json::json!({ "invitations": [] }));
    assert_eq!(folder.json(&["invitations", "list", "--all"])["invitations"][0]["state"], "revoked");
    assert!(folder.refused(&["invitations", "revoke", "nothing"]).contains("there is no open invitation nothing"));
    // the trail says who
    let trail = folder.out(&["audit", "--json"]);
    assert!(trail.contains("invitation_created") && trail.contains("operator "), "{trail}");
    assert!(!trail.contains("lkv_"));
}

#[test]
fn oa_155_the_command_line_refuses_what_cannot_be_and_says_what_to_do() {
    let folder = Folder::new(CONFIG);
    folder.key(&["laptop", "--user", "ann", "--server", "docs"]);
    assert!(folder.refused(&["invite", "ann"]).contains("`--again` makes another key"));
    // a further key has the rights of the others
    let again = folder.json(&["invite", "ann", "--again"]);
    assert_eq!(again["rights"]["servers"]["only"], serde_json::json!({ "docs": "full" }));
    assert!(folder.refused(&["invite", "eve", "--again"]).contains("there is no user `eve`"));
    assert!(folder.refused(&["invite", "eve", "--server", "nope"]).contains("there is no server `nope`"));
    assert!(folder.refused(&["invite", "eve", "--by", "nobody"]).contains("cannot give these rights"));
    assert!(
        folder.refused(&["invite", "--email", "a@b.example", "--login", "nope"]).contains("the providers are corp")
    );
    assert!(folder.refused(&["invite", "--email", "ab", "--login", "corp"]).contains("is not an email address"));
    let rule = folder.json(&["invite", "--email", "Ann@Example.com", "--login", "corp", "--server", "docs"]);
    assert_eq!((&rule["email"], &rule["issuer"]), (&"ann@example.com".into(), &"https://id.example.com".into()));
    assert!(rule["link"].is_null());
}

#[test]
fn oa_155_the_owner_gets_administration_only_while_nobody_has_it() {
    // without a public URL, the address on this machine
    let folder = Folder::new("");
    let made = folder.json(&["invite", "owner"]);
    assert!(made["link"].as_str().unwrap().starts_with("http://127.0.0.1:8080/invite?i=lkv_"));
    assert_eq!(made["rights"]["admin"], true);
    folder.json(&["invite", "owner"]);
    let listed = folder.json(&["invitations", "list"])["invitations"].take();
    assert_eq!(listed.as_array().unwrap().len(), 1, "another ends the one before");
    folder.key(&["admin", "--admin"]);
    let later = folder.json(&["invite", "owner"]);
    assert_eq!(later["rights"]["admin"], false, "a name like any other");
}

#[test]
fn an_invitation_of_a_key_that_is_a_user_has_the_name_of_the_key() {
    let folder = Folder::new(CONFIG);
    let id = folder.key(&["laptop"]);
    folder.json(&["invite", "bob", "--by", "laptop", "--server", "docs"]);
    assert!(folder.out(&["invitations", "list"]).contains(&format!("key:{id} (laptop)")));
    let listed = folder.json(&["invitations", "list"])["invitations"].take();
    assert_eq!((&listed[0]["inviter"], &listed[0]["key_name"]), (&format!("key:{id}").into(), &"laptop".into()));
    assert!(folder.refused(&["invite", "carl", "--by", "nobody", "--server", "docs"]).contains("nobody cannot give"));
}

#[test]
fn oa_156_an_option_replaces_its_right_and_the_others_stay() {
    let folder = Folder::new(CONFIG);
    let id = folder.key(&["laptop", "--server", "docs", "--group", "work", "--admin", "--direct"]);
    let rights = |arguments: &[&str]| {
        let changed = folder.json(&[&["keys", "set", &id], arguments].concat())["keys"].take();
        assert_eq!((changed.as_array().unwrap().len(), &changed[0]["direct"]), (1, &true.into()), "{changed}");
        changed[0]["rights"].clone()
    };
    let only = |servers: Value, admin: bool| serde_json::json!({ "servers": { "only": servers }, "admin": admin });
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(rights(&["--server", "git:read"]), only(json(r#"{"git":"read-only","work":"full"}"#), true));
    assert_eq!(rights(&["--group", "work:read"]), only(json(r#"{"git":"read-only","work":"read-only"}"#), true));
    assert_eq!(rights(&["--no-admin"]), only(json(r#"{"git":"read-only","work":"read-only"}"#), false));
    assert_eq!(rights(&["--all-servers"]), json(r#"{"servers":"all","admin":false}"#));
    assert_eq!(rights(&["--server", "docs", "--admin"]), only(json(r#"{"docs":"full"}"#), true));
    let listed = folder.json(&["keys", "set", &id, "--expires", "90d"])["keys"].take();
    assert!(listed[0]["expires"].is_string() && listed[0]["changed_by"].as_str().unwrap().starts_with("the operator "));
    assert!(folder.json(&["keys", "set", &id, "--expires", "never"])["keys"][0]["expires"].is_null());
    assert!(folder.refused(&["keys", "set", &id]).contains("required"));
    assert!(folder.refused(&["keys", "set", "nobody", "--admin"]).contains("there is no live key nobody"));
    let trail = folder.out(&["audit", "--json"]);
    assert!(trail.contains("rights_changed"), "{trail}");
}

#[test]
fn a_deleted_user_is_listed_with_what_ended() {
    let folder = Folder::new(CONFIG);
    let id = folder.key(&["laptop", "--user", "ann"]);
    folder.json(&["invite", "bob", "--by", "ann", "--server", "docs"]);
    let told = folder.out(&["users", "delete", "ann"]);
    assert_eq!(told, format!("Keys and accounts: laptop ({id})\nOpen invitations and rules: 1\n"));
    assert!(folder.refused(&["users", "delete", "ann"]).contains("there is no user `ann`"));
    folder.key(&["desktop", "--user", "carl"]);
    let ended = folder.json(&["users", "delete", "carl"]);
    assert_eq!(
        (&ended["id"], &ended["apps"], &ended["invitations"]),
        (&"carl".into(), &Value::Array(Vec::new()), &0.into())
    );
}
