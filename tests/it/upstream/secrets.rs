//! Secrets that each user enters for servers: programs and servers at a URL that get them, pages on which they are entered,
//! and their end.

use std::{fmt::Write as _, ops::Deref, process::Command, sync::Arc};

use lockkeeper::{
    mcp::Revision,
    model::{SecretName, UserId},
    storage::{AuditSearch, Storage},
    support::Timestamp,
};
use reqwest::StatusCode as Status;
use serde_json::{Value, json};

use super::world::{World, page_in};
use crate::kit::{
    carriers::{Carrier, Hosted, Program},
    person::Person,
    programs::ProgramServer,
    scripted::{Script, ScriptedServer},
};

/// A gateway with a program that needs a secret of each user.
struct Notes {
    world: World,
    _program: ProgramServer,
}

impl Deref for Notes {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// A program with one tool, which says what it was started with. It prints it too, as careless programs do.
fn careless() -> ScriptedServer {
    let script = Script::named("p").lists(&["own"]).hidden("own", json!([["text", "{/process}"]]));
    ScriptedServer::scripted(Revision::V2025_06_18, script).run_as(Program {
        arguments: vec!["--for=${user}".to_owned(), "--key=${secret:API_KEY}".to_owned()],
        at_start: r#"echo "started with $KEY and $*" >&2"#.to_owned(),
        ..Program::default()
    })
}

async fn world(share: &str) -> Notes {
    let program = ProgramServer::start(careless());
    let env = "env = { KEY = \"${secret:API_KEY}\" }";
    let section = format!("[servers.notes]\n{}cwd = \".\"\n{env}\nshare = \"{share}\"", program.lines());
    Notes { world: World::in_mode("oauth", &section).await, _program: program }
}

/// What a client shows that opens pages.
fn shows_pages() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} } })
}

async fn save(person: &mut Person, name: &str, value: &str) {
    let account = person.get("/account").await;
    let fields = [("name", name), ("value", value), ("decision", "save")];
    let saved = person.submit_account(&account, &fields).await;
    assert_eq!((saved.status, saved.location.as_deref()), (Status::SEE_OTHER, Some("/account?done=secret-saved")));
}

/// What the program says that it was started with.
async fn own(person: &Person) -> Value {
    serde_json::from_str(&person.client("2025-11-25", json!({})).call("notes__own").await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_002_a_program_gets_the_secret_of_its_user_and_runs_for_that_user_alone() {
    let world = world("user").await;
    let (mut ada, mut bob) = (world.person("ada"), world.person("bob"));
    for (person, value) in [(&mut ada, "  s3cret-of-ada "), (&mut bob, "s3cret-of-bob")] {
        person.log_in().await;
        save(person, "API_KEY", value).await;
    }
    let (first, other) = (own(&ada).await, own(&bob).await);
    assert_eq!(first["environment"]["KEY"], "s3cret-of-ada");
    assert_eq!(first["arguments"], json!(["--for=ada", "--key=s3cret-of-ada"]));
    assert_eq!((&other["environment"]["KEY"], &other["arguments"][0]), (&json!("s3cret-of-bob"), &json!("--for=bob")));
    assert_ne!(first["pid"], other["pid"]);
    assert_eq!(own(&ada).await, first, "one process for all clients of a user");

    // another value, another process
    save(&mut ada, "API_KEY", "n3w-of-ada").await;
    let renewed = own(&ada).await;
    assert_eq!(renewed["environment"]["KEY"], "n3w-of-ada");
    assert_ne!(renewed["pid"], first["pid"]);
    assert_eq!(own(&bob).await, other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_002_each_session_has_a_process_with_the_secret_where_sessions_do_not_share() {
    let world = world("session").await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    save(&mut ada, "API_KEY", "s3cret-of-ada").await;
    let (one, two) = (own(&ada).await, own(&ada).await);
    assert_eq!(
        (&one["environment"]["KEY"], &two["environment"]["KEY"]),
        (&json!("s3cret-of-ada"), &json!("s3cret-of-ada"))
    );
    assert_ne!(one["pid"], two["pid"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_a_client_is_led_to_the_page_on_which_the_missing_secret_is_entered() {
    let world = world("user").await;
    let mut ada = world.person("ada");
    assert_eq!(ada.client("2025-06-18", json!({})).tools_of("notes").await, ["notes__connect_account"]);
    let call = || json!({ "name": "notes__own", "arguments": {} });
    let words = ada.client("2025-06-18", json!({})).ask("tools/call", call()).await;
    let text = words["content"][0]["text"].as_str().unwrap();
    let url = text.split(' ').find(|word| word.contains("/connect/notes?t=")).unwrap().to_owned();
    assert_eq!(
        (words["isError"].as_bool(), text),
        (
            Some(true),
            &*format!(
                "notes needs the secret API_KEY from you: enter it for your apps.\nOpen {url} in a browser, and then call again."
            )
        )
    );
    let error = ada.client("2025-11-25", shows_pages()).ask("tools/call", call()).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["elicitations"][0]["mode"]), (&json!(-32042), &json!("url")));
    let asked = ada.client("2026-07-28", shows_pages()).ask("tools/call", call()).await;
    assert_eq!(
        (&asked["resultType"], &asked["inputRequests"]["r1"]["params"]["mode"]),
        (&json!("input_required"), &json!("url"))
    );

    // nobody else enters it there, and nobody without a login
    let page = page_in(&url);
    let login = ada.get(&page).await;
    assert!(login.body.contains("name=\"key\""), "{}", login.body);
    let mut eve = world.person("eve");
    eve.log_in().await;
    assert_eq!(eve.get(&page).await.status, Status::FORBIDDEN);

    ada.log_in().await;
    let shown = ada.get(&page).await;
    for part in ["Enter your <span class=\"name\">API_KEY</span>", "type=\"password\"", "<strong>notes</strong>"] {
        assert!(shown.body.contains(part), "{}", shown.body);
    }
    let fields = [("name", "API_KEY"), ("value", "s3cret-of-ada"), ("decision", "save")];
    let saved = ada.submit_account(&shown, &fields).await;
    assert_eq!(saved.status, Status::SEE_OTHER, "{}", saved.body);
    let next = ada.get(&saved.location.unwrap()).await;
    assert_eq!(next.location.as_deref(), Some("/connect/notes/done"));
    assert!(ada.get("/connect/notes/done").await.body.contains("is connected"));
    assert_eq!(own(&ada).await["environment"]["KEY"], "s3cret-of-ada");
    let forged = eve.submit_account(&shown, &fields).await;
    assert_eq!(forged.status, Status::FORBIDDEN, "the form of another browser");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_150_a_secret_saved_twice_is_entered_once_and_each_press_leads_on() {
    let world = world("user").await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    let page = ada.get("/connect/notes").await;
    let fields = [("name", "API_KEY"), ("value", "s3cret-of-ada"), ("decision", "save")];
    // two presses at once, and one while the server runs
    let mut twin = ada.twin();
    let (one, two) = tokio::join!(ada.submit_account(&page, &fields), twin.submit_account(&page, &fields));
    let process = own(&ada).await["pid"].clone();
    let late = ada.submit_account(&page, &fields).await;
    for pressed in [one, two, late] {
        assert_eq!((pressed.status, pressed.location.as_deref()), (Status::SEE_OTHER, Some("/connect/notes")));
    }
    assert_eq!(ada.get("/connect/notes").await.location.as_deref(), Some("/connect/notes/done"));
    assert_eq!(own(&ada).await["pid"], process, "what runs with it goes on");
    // the other button leads on and deletes nothing
    let left = ada.submit_account(&page, &[("name", "API_KEY"), ("decision", "cancel")]).await;
    assert_eq!((left.status, left.location.as_deref()), (Status::SEE_OTHER, Some("/account")));
    let account = ada.get("/account").await;
    assert!(account.body.contains("entered just now"), "{}", account.body);
    // a press that knew of no secret stores nothing over one
    let (storage, user) = (world.storage().await, UserId::new("ada"));
    let name = SecretName::parse("API_KEY").unwrap();
    let now = Timestamp::from_millis(0);
    assert!(!storage.user_secrets().set(&user, &name, b"another", None, now).await.unwrap());
    storage.close().await;
    for _ in 0..2 {
        let deleted = ada.submit_account(&account, &[("name", "API_KEY"), ("decision", "delete")]).await;
        assert_eq!(deleted.location.as_deref(), Some("/account?done=secret-deleted"));
    }
    let World { gateway, folder, .. } = world.world;
    gateway.stop().await;
    let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
    let rows = storage.audit().find(&AuditSearch { limit: 1000, ..AuditSearch::default() }).await.unwrap();
    for event in ["secret_entered", "secret_ended"] {
        assert_eq!(rows.iter().filter(|row| row.row.event == event).count(), 1, "{event}");
    }
    storage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_002_a_secret_is_shown_nowhere_and_kept_sealed() {
    let world = world("user").await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    save(&mut ada, "API_KEY", "s3cret-of-ada").await;
    own(&ada).await;
    let account = ada.get("/account").await.body;
    assert!(account.contains("API_KEY") && account.contains("entered just now"), "{account}");
    let mut seen = account;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        let output = command.args(arguments).arg("--data-dir").arg(world.folder.path()).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    seen += &run(&["status", "--json"]);
    let storage = world.storage().await;
    let row = storage.user_secrets().entered(&UserId::new("ada")).await.unwrap();
    storage.close().await;
    assert_eq!(row.len(), 1);
    let audit = loop {
        // the trail is written in the background
        let audit = run(&["audit", "--json"]);
        if audit.contains("\"secret_entered\"") || audit.contains("\"login\"") {
            break audit;
        }
    };
    write!(seen, "{audit}").unwrap();
    for file in std::fs::read_dir(world.folder.path()).unwrap().flatten() {
        seen += &String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default());
    }
    assert!(!seen.contains("s3cret-of-ada"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_010_a_secret_ends_by_its_user_and_with_its_user() {
    let world = world("user").await;
    let (mut ada, mut bob) = (world.person("ada"), world.person("bob"));
    for person in [&mut ada, &mut bob] {
        person.log_in().await;
        save(person, "API_KEY", "s3cret").await;
    }
    let process = own(&bob).await["pid"].as_i64().unwrap();
    own(&ada).await;
    let account = ada.get("/account").await;
    let deleted = ada.submit_account(&account, &[("name", "API_KEY"), ("decision", "delete")]).await;
    assert_eq!(deleted.location.as_deref(), Some("/account?done=secret-deleted"));
    let words = ada.client("2025-06-18", json!({})).call("notes__own").await;
    assert!(words.contains("/connect/notes?t="), "{words}");
    let mut delete = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    delete.args(["users", "delete", "bob", "--data-dir"]).arg(world.folder.path());
    assert!(delete.output().unwrap().status.success());
    ended(process).await;
    let storage = world.storage().await;
    assert_eq!(storage.user_secrets().entered(&UserId::new("bob")).await.unwrap(), []);
    storage.close().await;
}

/// Waits until a process is gone.
async fn ended(process: i64) {
    let gone = async {
        while std::path::Path::new(&format!("/proc/{process}/stat")).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_065_a_secret_that_is_none_or_that_nobody_asks_for_is_refused() {
    let world = world("user").await;
    let mut ada = world.person("ada");
    ada.log_in().await;
    for (value, words) in [(" ", "nothing was entered"), ("a\nb", "a control character"), (&*"x".repeat(4097), "4 KiB")]
    {
        let account = ada.get("/account").await;
        let refused =
            ada.submit_account(&account, &[("name", "API_KEY"), ("value", value), ("decision", "save")]).await;
        assert_eq!(refused.status, Status::BAD_REQUEST);
        assert!(refused.body.contains(words) && refused.body.contains("was not saved"), "{}", refused.body);
    }
    for name in ["OTHER", "", "a|b"] {
        let account = ada.get("/account").await;
        let refused = ada.submit_account(&account, &[("name", name), ("value", "x"), ("decision", "save")]).await;
        assert_eq!(refused.status, Status::NOT_FOUND, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_011_a_server_at_a_url_gets_the_secret_of_the_user_in_a_header() {
    // its tool says the header
    let script = Script::named("wiki").lists(&["key"]).hidden("key", json!([["text", "{/headers/x-key}"]]));
    let server = ScriptedServer::scripted(Revision::V2025_06_18, script);
    let server = Hosted::start(Carrier::Http, Arc::new(server));
    let options = format!("[servers.wiki]\n{}headers = {{ X-Key = \"key ${{secret:WIKI}}\" }}", server.lines());
    let world = World::in_mode("oauth", &options).await;
    let (mut ada, mut bob) = (world.person("ada"), world.person("bob"));
    for (person, value) in [(&mut ada, "of-ada"), (&mut bob, "of-bob")] {
        person.log_in().await;
        save(person, "WIKI", value).await;
    }
    assert_eq!(ada.client("2025-11-25", json!({})).call("wiki__key").await, "key of-ada");
    assert_eq!(bob.client("2026-07-28", json!({})).call("wiki__key").await, "key of-bob");
    save(&mut ada, "WIKI", "changed").await;
    assert_eq!(ada.client("2026-07-28", json!({})).call("wiki__key").await, "key changed");
}
