//! Detection of the era: every row of `translation` 2.7, over stdio and over HTTP.

use std::time::Duration;

use http::Method as Verb;
use lockkeeper::{
    backend::Supervisor,
    mcp::{Event, Outcome},
    model::{
        BackendSpec, EraChoice, Share,
        status::{BackendState, EraSource, EraStatus},
    },
};
use serde_json::{Value, json};

use super::{
    eras::spec,
    scripted_servers::{
        SOON, Scripts, client, failure, gated, gateway, hold_time, next, pass, start, started, text, tool, until,
    },
};
use crate::kit::peer::{Peer, Response, Seen, greeting, named, open_events, reply, status};
use crate::kit::scripted::Gate;

/// Result of a detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Modern,
    Legacy,
    /// Unusable, without an attempted handshake.
    Neither,
}

fn verdict(supervisor: &Supervisor, log: &str) -> Verdict {
    let status = supervisor.status().remove(0);
    match (status.state, status.era) {
        (BackendState::Ready, Some(EraStatus { era, found: EraSource::Probed, since: Some(_), .. })) => {
            if era == "modern" { Verdict::Modern } else { Verdict::Legacy }
        }
        (BackendState::Failed { .. } | BackendState::Restarting { .. }, None) if !log.contains("initialize") => {
            Verdict::Neither
        }
        other => panic!("{other:?}"),
    }
}

/// The answer to `server/discover` of a server with these versions.
pub(crate) fn server_info(versions: &[&str]) -> Value {
    json!({ "result": { "resultType": "complete", "supportedVersions": versions, "capabilities": {},
        "ttlMs": 0, "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "s", "version": "1" } } } })
}

/// Answers to `server/discover` over HTTP, and their consequences.
fn rows() -> Vec<(&'static str, u16, Value, Verdict)> {
    use Verdict::{Legacy, Modern, Neither};
    let error = |code: i64, data: Value| json!({ "error": { "code": code, "message": "no", "data": data } });
    let supported = |names: &[&str]| error(-32022, json!({ "supported": names, "requested": "2026-07-28" }));
    vec![
        ("modern", 200, server_info(&["2026-07-28"]), Modern),
        ("dual", 200, server_info(&["2024-11-05", "2026-07-28"]), Modern),
        ("older", 200, server_info(&["2025-06-18", "2025-11-25"]), Legacy),
        ("newer", 200, server_info(&["2099-01-01"]), Neither),
        ("only newer", 400, supported(&["2099-01-01"]), Neither),
        ("only older", 400, supported(&["2025-11-25"]), Legacy),
        ("nothing supported", 400, error(-32022, Value::Null), Legacy),
        ("header mismatch", 400, error(-32020, Value::Null), Neither),
        ("missing capability", 400, error(-32021, json!({ "requiredCapabilities": {} })), Neither),
        ("unknown method", 404, error(-32601, Value::Null), Legacy),
        ("unknown method, 200", 200, error(-32601, Value::Null), Legacy),
        ("invalid params", 200, error(-32602, Value::Null), Legacy),
        ("no session", 400, error(-32000, Value::Null), Legacy),
        ("odd code", 400, error(0, Value::Null), Legacy),
        ("something else", 200, json!({ "result": {} }), Legacy),
        ("400", 400, Value::Null, Legacy),
        ("404", 404, Value::Null, Legacy),
        ("405", 405, Value::Null, Legacy),
        ("406", 406, Value::Null, Legacy),
        ("415", 415, Value::Null, Legacy),
        ("401", 401, Value::Null, Neither),
        ("403", 403, Value::Null, Neither),
        ("429", 429, Value::Null, Neither),
        ("500", 500, Value::Null, Neither),
        ("503", 503, Value::Null, Neither),
    ]
}

/// The answer to a request with this status, or the status without a body.
pub(crate) fn answered(seen: &Seen, code: u16, answer: &Value) -> Response {
    if answer.is_null() {
        return status(code);
    }
    let mut message = answer.clone();
    message["jsonrpc"] = "2.0".into();
    message["id"] = seen.body["id"].clone();
    let mut response = reply(&message);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

#[tokio::test]
async fn over_http_the_answer_to_the_probe_decides_the_era() {
    for (name, code, answer, expected) in rows() {
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => Some(answered(seen, code, &answer)),
            "initialize" => Some(reply(&seen.result(&greeting("2025-11-25")))),
            _ => None,
        })
        .await;
        let (supervisor, _) = started(BackendSpec { era: EraChoice::Auto, ..peer.spec() }).await;
        let log: String = peer.seen().iter().map(Seen::method).collect();
        assert_eq!(verdict(&supervisor, &log), expected, "{name}");
        assert_eq!(peer.seen().iter().any(|seen| seen.method() == "initialize"), expected == Verdict::Legacy, "{name}");
        let asked = peer.seen_of("server/discover").remove(0);
        assert_eq!(asked.verb, Verb::POST);
        assert_eq!(asked.header("mcp-method"), Some("server/discover"), "{name}");
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"), "{name}");
    }
}

#[tokio::test]
async fn a_server_that_lists_the_version_it_rejected_is_probed_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let peer = Peer::start(move |seen| {
        let supported =
            json!({ "error": { "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"] } } });
        let turn = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let (code, answer) = if turn == 0 { (400, supported) } else { (200, rows().remove(0).2) };
        (seen.method() == "server/discover").then(|| answered(seen, code, &answer))
    })
    .await;
    let (supervisor, _) = started(BackendSpec { era: EraChoice::Auto, ..peer.spec() }).await;
    assert_eq!(verdict(&supervisor, ""), Verdict::Modern);
}

#[tokio::test]
async fn silence_over_http_is_an_outage() {
    let peer = Peer::start(|seen| (seen.method() == "server/discover").then(|| open_events(String::new()))).await;
    let start_timeout = Duration::from_millis(100);
    let (supervisor, _) = started(BackendSpec { era: EraChoice::Auto, start_timeout, ..peer.spec() }).await;
    assert_eq!(verdict(&supervisor, ""), Verdict::Neither);
    assert!(peer.seen_of("initialize").is_empty());
}

/// The numbers of processes, handshakes and probes.
fn starts(scripts: &Scripts) -> [usize; 3] {
    let log = scripts.log("era");
    ["started", r#""initialize""#, "server/discover"].map(|what| log.matches(what).count())
}

#[tokio::test]
async fn over_stdio_the_answer_to_the_handshake_decides_the_era() {
    for (mode, expected, started_and_asked) in [
        // a server of both eras has sessions, unless `era` says otherwise
        ("dual", Verdict::Legacy, [1, 1, 0]),
        ("older", Verdict::Legacy, [1, 1, 0]),
        ("exit", Verdict::Legacy, [1, 1, 0]),
        ("silent", Verdict::Legacy, [1, 1, 0]),
        // one that answers with an error is asked on the same process
        ("modern", Verdict::Modern, [1, 1, 1]),
        ("only", Verdict::Modern, [1, 1, 1]),
        ("only-32020", Verdict::Modern, [1, 1, 1]),
        ("only-32021", Verdict::Modern, [1, 1, 1]),
        ("only-32022", Verdict::Modern, [1, 1, 1]),
        ("only-32601", Verdict::Modern, [1, 1, 1]),
    ] {
        let scripts = Scripts::new();
        let (supervisor, server) = started(spec(&scripts, mode)).await;
        assert_eq!(verdict(&supervisor, &scripts.log("era")), expected, "{mode}");
        assert_eq!(starts(&scripts), started_and_asked, "{mode}");
        assert_eq!(text(tool(&server, gateway(), &named("x"))).await, mode);
    }
}

#[tokio::test]
async fn a_request_on_a_process_that_refused_the_handshake_has_an_id_of_its_own() {
    let scripts = Scripts::new();
    let (_supervisor, _) = started(spec(&scripts, "only")).await;
    let log = scripts.log("era");
    let ids: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| message.get("id").cloned())
        .collect();
    assert!(ids.len() >= 2, "{log}");
    assert!(ids.iter().enumerate().all(|(place, id)| !ids[..place].contains(id)), "{ids:?}");
}

#[tokio::test]
async fn a_server_of_no_known_version_or_that_refuses_both_is_given_up_with_one_process() {
    for (mode, reason, started_and_asked) in [
        ("says=2099-01-01", "the server speaks protocol 2099-01-01 only", [1, 1, 0]),
        ("refuses", "the server refused `initialize`: no key", [1, 1, 1]),
    ] {
        let scripts = Scripts::new();
        let (supervisor, server) = started(spec(&scripts, mode)).await;
        let (BackendState::Failed { reason: told, .. } | BackendState::Restarting { reason: told }) =
            supervisor.status().remove(0).state
        else {
            panic!("it cannot be used")
        };
        assert!(told.contains(reason), "{told}");
        assert_eq!(starts(&scripts), started_and_asked, "{mode}");
        failure(tool(&server, gateway(), &named("x"))).await;
    }
}

/// Neither silence nor an exit proves anything: the next start asks in the other order.
#[tokio::test]
async fn a_process_without_an_answer_to_the_handshake_is_probed_at_its_next_start() {
    for mode in ["only=exit", "only=silent"] {
        let scripts = Scripts::new();
        let start_timeout = Duration::from_secs(8);
        let spec = BackendSpec { start_timeout, probe_timeout: SOON, ..spec(&scripts, mode) };
        let (supervisor, server) = started(spec).await;
        assert_eq!(starts(&scripts), [1, 1, 0], "{mode}");
        let ready = || Some(supervisor.status().remove(0).state).filter(|state| *state == BackendState::Ready);
        until(&format!("`{mode}`"), ready).await;
        assert_eq!(verdict(&supervisor, ""), Verdict::Modern);
        assert_eq!(text(tool(&server, gateway(), &named("x"))).await, mode);
        assert_eq!(starts(&scripts), [2, 1, 1], "{mode}");
    }
}

/// The time is held: only the handshake's own answer can end the wait.
#[tokio::test]
async fn a_slow_start_is_not_started_a_second_time_beside_the_first() {
    let scripts = Scripts::new();
    let gate = Gate::closed();
    let spec = BackendSpec {
        era: EraChoice::Auto,
        start_timeout: Duration::from_mins(5),
        ..scripts.serve("slow", gated(&gate))
    };
    let supervisor = start(vec![spec]);
    let log = scripts.logged("slow", "initialize").await;
    assert!(!log.contains("server/discover"), "{log}");
    let held = hold_time();
    // far beyond `probe_timeout`
    pass(Duration::from_mins(1)).await;
    drop(held);
    gate.open();
    assert!(supervisor.ready(SOON).await);
    assert_eq!(supervisor.status()[0].state, BackendState::Ready);
    assert_eq!(scripts.log("slow").matches("started").count(), 1);
    assert!(!scripts.log("slow").contains("server/discover"));
}

#[tokio::test]
async fn log_messages_of_a_cancelled_call_reach_no_other_client() {
    let scripts = Scripts::new();
    let spec = BackendSpec { share: Share::All, ..spec(&scripts, "modern") };
    let (_supervisor, server) = started(spec).await;
    let loud = |name: &str| {
        let level = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        json!({ "name": name, "arguments": {}, "_meta": level })
    };
    let mut given_up = tool(&server, client("a", "{}"), &loud("given up"));
    let mut held = tool(&server, client("b", "{}"), &loud("held"));
    tokio::select! {
        event = given_up.next_event() => panic!("{event:?}"),
        _ = scripts.logged("era", "given up") => {}
    }
    tokio::select! {
        event = held.next_event() => panic!("{event:?}"),
        _ = scripts.logged("era", "held") => {}
    }
    assert_eq!(scripts.log("era").matches("logLevel").count(), 2, "both want to read logs");
    drop(given_up);
    let first = next(&mut held).await;
    assert!(matches!(first, Event::Done(Outcome::Complete(_))), "{first:?}");
}

#[tokio::test]
async fn a_configured_era_is_not_probed() {
    let scripts = Scripts::new();
    let (supervisor, _) = started(BackendSpec { era: EraChoice::Legacy, ..spec(&scripts, "dual") }).await;
    let status = supervisor.status().remove(0);
    assert_eq!(status.protocol_version.as_deref(), Some("2025-11-25"));
    assert_eq!(status.era.map(|era| era.found), Some(EraSource::Configured));
    assert!(!scripts.log("era").contains("server/discover"));
    let scripts = Scripts::new();
    let (supervisor, _) = started(BackendSpec { era: EraChoice::Modern, ..spec(&scripts, "code-32601") }).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("it cannot be used") };
    assert!(reason.contains("era"), "{reason}");
    assert!(!scripts.log("era").contains("initialize"));
}

#[tokio::test]
async fn a_configured_version_is_the_one_that_is_requested() {
    let scripts = Scripts::new();
    let version = Some("2025-03-26");
    let spec = BackendSpec { era: EraChoice::Legacy, version, ..spec(&scripts, "dual") };
    let (supervisor, _) = started(spec).await;
    assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some("2025-03-26"));
}
