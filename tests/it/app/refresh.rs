//! Programs that share a refresh token, as processes of their own, and a gateway that is killed and started again.

use std::{
    env,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use url::form_urlencoded;

use super::{client, made_key};
use crate::{
    kit::{
        gateway::{Program, run},
        person::{ConnectedApp, Person},
    },
    support::data_folder::DataFolder,
};

/// Stand before the gateway's address and the form that a program sends there.
const GATEWAY: &str = "gateway=";
const FORM: &str = "form=";

/// A program that shares the token, which is this one once more: it asks when it is told to, and prints the answer to its
/// standard error, since the names of tests are on the other.
#[test]
#[expect(clippy::print_stderr, reason = "it stands for a program")]
fn process() {
    let word = |start: &str| env::args().find_map(|word| word.strip_prefix(start).map(str::to_owned));
    let (Some(gateway), Some(form)) = (word(GATEWAY), word(FORM)) else { return };
    io::stdin().read_line(&mut String::new()).unwrap();
    let mut stream = TcpStream::connect(&gateway).unwrap();
    let head = format!("POST /oauth/token HTTP/1.1\r\nhost: {gateway}\r\nconnection: close\r\n");
    let kind = "content-type: application/x-www-form-urlencoded";
    write!(stream, "{head}{kind}\r\ncontent-length: {}\r\n\r\n{form}", form.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    eprint!("{answer}");
}

/// Has this many processes refresh the token at once; returns the statuses and answers.
fn refresh(count: usize, gateway: &Program, app: &ConnectedApp, token: &str) -> Vec<(u16, Value)> {
    let process = |_| {
        let pairs = [("grant_type", "refresh_token"), ("client_id", &app.client), ("refresh_token", token)];
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let address = gateway.url.strip_prefix("http://").unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["app::refresh::process", "--exact", "--nocapture"]);
        command.args([format!("{GATEWAY}{address}"), format!("{FORM}{form}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut processes: Vec<Child> = (0..count).map(process).collect();
    for process in &mut processes {
        process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
    let answer = |process: Child| {
        let output = process.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        let status = head.split(' ').nth(1).unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap())
    };
    processes.into_iter().map(answer).collect()
}

/// The answer to a single process.
fn refresh_one(gateway: &Program, app: &ConnectedApp, token: &str) -> (u16, Value) {
    refresh(1, gateway, app, token).remove(0)
}

/// The refresh token that all of them got.
fn agreed(answers: &[(u16, Value)]) -> String {
    let of = |(status, answer): &(u16, Value)| {
        assert_eq!(*status, 200, "{answer}");
        answer["refresh_token"].as_str().unwrap().to_owned()
    };
    let first = of(&answers[0]);
    assert!(answers.iter().all(|answer| of(answer) == first), "{answers:?}");
    first
}

fn assert_refused((status, answer): &(u16, Value), what: &str) {
    let error = json!({ "error": answer["error"] });
    assert_eq!((*status, error), (400, json!({ "error": "invalid_grant" })), "{what}: {answer}");
    assert_eq!((answer.get("refresh_token"), answer.get("access_token")), (None, None), "{what}");
}

/// A gateway with this grace period.
fn start(folder: &Path, grace: &str) -> Program {
    std::fs::write(folder.join("lockkeeper.toml"), format!("[auth]\nrefresh_grace = \"{grace}\"\n")).unwrap();
    Program::start(folder)
}

async fn connected(folder: &Path, gateway: &Program) -> ConnectedApp {
    let key = made_key(&folder.join("data"), &[]);
    let mut person = Person::new(&gateway.url, &key);
    person.log_in().await;
    person.connect_app("app", "/mcp").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_090_five_processes_get_the_same_successor_though_the_gateway_is_killed_in_between() {
    let folder = DataFolder::new();
    let gateway = start(folder.path(), "5m");
    let app = connected(folder.path(), &gateway).await;
    let first = agreed(&refresh(5, &gateway, &app, &app.refresh));
    assert_ne!(first, app.refresh, "OA-89: it is another token");
    drop(gateway);
    let gateway = start(folder.path(), "5m");
    assert_eq!(agreed(&refresh(5, &gateway, &app, &app.refresh)), first);
    let second = agreed(&refresh(5, &gateway, &app, &first));
    assert!(second != first && second != app.refresh);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_091_after_the_grace_period_a_lost_answer_is_repeated_and_its_successor_ends() {
    let folder = DataFolder::new();
    let gateway = start(folder.path(), "5m");
    let app = connected(folder.path(), &gateway).await;
    let lost = agreed(&refresh(5, &gateway, &app, &app.refresh));
    drop(gateway);
    // nothing is left of the grace period
    let gateway = start(folder.path(), "0s");
    let again = agreed(&[refresh_one(&gateway, &app, &app.refresh)]);
    assert_ne!(again, lost);
    assert_refused(&refresh_one(&gateway, &app, &lost), "two parties have the family");
    assert_refused(&refresh_one(&gateway, &app, &again), "the whole family ended");
}

/// A listen with this access token.
async fn listen(gateway: &Program, access: &str) -> reqwest::Response {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
    let request = client().post(format!("{}/mcp", gateway.url)).bearer_auth(access).body(message.to_string());
    let request = request.header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "subscriptions/listen");
    request.send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_092_reuse_after_the_grace_period_ends_the_family_and_its_streams_and_is_audited() {
    let folder = DataFolder::new();
    let gateway = start(folder.path(), "5m");
    let app = connected(folder.path(), &gateway).await;
    let first = agreed(&refresh(5, &gateway, &app, &app.refresh));
    let second = agreed(&refresh(5, &gateway, &app, &first));
    drop(gateway);
    let gateway = start(folder.path(), "0s");
    let (status, newest) = refresh_one(&gateway, &app, &second);
    assert_eq!(status, 200, "{newest}");
    let access = newest["access_token"].as_str().unwrap();
    let mut stream = listen(&gateway, access).await;
    assert_eq!(stream.status(), 200);

    for answer in refresh(5, &gateway, &app, &app.refresh) {
        assert_refused(&answer, "a stolen token");
    }
    while let Ok(Some(_)) = stream.chunk().await {}
    assert_refused(&refresh_one(&gateway, &app, newest["refresh_token"].as_str().unwrap()), "the whole family ended");
    assert_eq!(listen(&gateway, access).await.status(), 401);
    let data = folder.path().join("data");
    let mut events = String::new();
    // its row is written within half a second
    while !events.contains("refresh_reused") {
        events = run(&data, &["audit", "--event", "refresh_reused"]);
    }
    assert!(events.contains(&app.client), "{events}");
}
