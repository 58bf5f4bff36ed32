//! Eras that were detected before this start: used for their lifetime, and detected again after a failure.

use std::{sync::Arc, time::Duration};

use http::Method as Verb;
use lockkeeper::{
    backend::Supervisor,
    mcp::{Era, Server},
    model::{
        BackendSpec, EraChoice, KnownEra,
        status::{BackendState, EraSource, EraStatus},
    },
    support::{Clock as _, Digest, ManualClock, Timestamp},
};
use serde_json::{Value, json};

use super::{
    era::{answered, server_info},
    eras::{changing, server, spec},
    scripted_servers::{SOON, Scripts, client, failure, gateway, start_knowing, text, tool, until},
};
use crate::kit::peer::{Peer, Seen, greeting, named, reply, status};
use crate::kit::programs::ChangingServer;

const HOUR: Duration = Duration::from_hours(1);

/// A backend whose era was detected `ago`, after its start.
async fn knowing(spec: BackendSpec, era: Era, ago: Duration) -> (Supervisor, Arc<dyn Server>) {
    let supervisor = beginning(spec, era, ago);
    assert!(supervisor.ready(SOON).await, "the server has not settled");
    let server = supervisor.servers().remove(0).server;
    (supervisor, server)
}

fn beginning(spec: BackendSpec, era: Era, ago: Duration) -> Supervisor {
    let clock = ManualClock::default();
    let known = KnownEra { server: spec.transport.server().unwrap(), era, found: clock.now() - ago };
    start_knowing(vec![spec], vec![known], Arc::new(clock))
}

fn era(supervisor: &Supervisor) -> (String, EraSource) {
    let EraStatus { era, found, .. } = supervisor.status().remove(0).era.unwrap();
    (era, found)
}

fn known(supervisor: &Supervisor) -> Vec<(Era, Timestamp)> {
    supervisor.eras().iter().map(|known| (known.era, known.found)).collect()
}

/// The numbers of process starts, probes and handshakes.
fn starts(scripts: &Scripts) -> [usize; 3] {
    let log = scripts.log("era");
    ["started", "server/discover", r#""initialize""#].map(|what| log.matches(what).count())
}

#[tokio::test]
async fn a_known_program_is_not_probed_again() {
    let now = ManualClock::default().now();
    for (mode, of, expected) in [("dual", Era::Modern, [1, 1, 0]), ("dual", Era::Legacy, [1, 0, 1])] {
        let scripts = Scripts::new();
        let (supervisor, server) = knowing(spec(&scripts, mode), of, HOUR).await;
        let since = Some("2025-12-31T23:00:00Z".to_owned());
        let word = if of == Era::Modern { "modern" } else { "legacy" };
        let status = supervisor.status().remove(0);
        assert_eq!(
            status.era,
            Some(EraStatus { era: word.to_owned(), found: EraSource::Cached, since, also_modern: false })
        );
        assert_eq!(text(tool(&server, gateway(), &named("x"))).await, mode);
        assert_eq!(starts(&scripts), expected, "{of:?}");
        assert_eq!(known(&supervisor), [(of, now - HOUR)], "it was not found out now");
    }
}

#[tokio::test]
async fn a_known_server_over_http_is_not_probed_again() {
    for (of, first) in [(Era::Modern, "server/discover"), (Era::Legacy, "initialize")] {
        let peer = both().await;
        let (supervisor, _) = knowing(auto(&peer), of, HOUR).await;
        assert_eq!(era(&supervisor).1, EraSource::Cached);
        let asked: Vec<String> = peer.seen().iter().map(|seen| seen.method().to_owned()).collect();
        assert_eq!(asked[0], first);
        let times = asked.iter().filter(|method| *method == "server/discover").count();
        assert_eq!(times, usize::from(of == Era::Modern), "{asked:?}");
    }
}

#[tokio::test]
async fn a_legacy_verdict_lasts_a_day() {
    for (ago, found) in [(HOUR * 23, EraSource::Cached), (HOUR * 24, EraSource::Probed)] {
        let scripts = Scripts::new();
        let (supervisor, _) = knowing(spec(&scripts, "code-32601"), Era::Legacy, ago).await;
        assert_eq!(era(&supervisor), ("legacy".to_owned(), found));
    }
    let scripts = Scripts::new();
    let (supervisor, _) = knowing(spec(&scripts, "modern"), Era::Modern, HOUR * 24 * 365).await;
    assert_eq!(era(&supervisor), ("modern".to_owned(), EraSource::Cached));
}

#[tokio::test]
async fn a_verdict_from_the_future_is_not_used() {
    let scripts = Scripts::new();
    let spec = spec(&scripts, "modern");
    let clock = ManualClock::default();
    let found = clock.now() + HOUR;
    let known = KnownEra { server: spec.transport.server().unwrap(), era: Era::Legacy, found };
    let supervisor = start_knowing(vec![spec], vec![known], Arc::new(clock));
    assert!(supervisor.ready(SOON).await);
    assert_eq!(era(&supervisor), ("modern".to_owned(), EraSource::Probed));
}

#[tokio::test]
async fn a_program_with_a_changed_era_is_detected_again() {
    for (mode, before, now) in [
        ("code-32601", Era::Modern, Era::Legacy),
        ("exit", Era::Modern, Era::Legacy),
        ("silent", Era::Modern, Era::Legacy),
        ("older", Era::Modern, Era::Legacy),
        ("code-32602", Era::Modern, Era::Legacy),
        ("code0", Era::Modern, Era::Legacy),
        ("supports=2025-03-26", Era::Modern, Era::Legacy),
        ("only", Era::Legacy, Era::Modern),
        ("only-32601", Era::Legacy, Era::Modern),
        ("only-32602", Era::Legacy, Era::Modern),
        ("only=exit", Era::Legacy, Era::Modern),
        ("only=silent", Era::Legacy, Era::Modern),
    ] {
        let scripts = Scripts::new();
        // a silent process is given up, and started once more
        let start_timeout = if mode.ends_with("silent") { Duration::from_secs(8) } else { SOON };
        let spec = BackendSpec { start_timeout, ..spec(&scripts, mode) };
        let (supervisor, server) = knowing(spec, before, HOUR).await;
        let ready = || Some(supervisor.status().remove(0).state).filter(|state| *state == BackendState::Ready);
        until(&format!("`{mode}`"), ready).await;
        let word = if now == Era::Modern { "modern" } else { "legacy" };
        assert_eq!(era(&supervisor), (word.to_owned(), EraSource::Probed), "{mode}");
        assert_eq!(known(&supervisor), [(now, ManualClock::default().now())], "{mode}");
        assert_eq!(text(tool(&server, gateway(), &named("x"))).await, mode);
    }
}

#[tokio::test]
async fn a_known_program_that_answers_the_probe_as_a_modern_one_gets_no_handshake() {
    for mode in ["newer", "code-32020", "supports=2099-01-01"] {
        let scripts = Scripts::new();
        let (supervisor, server) = knowing(spec(&scripts, mode), Era::Modern, HOUR).await;
        assert_eq!(supervisor.status().remove(0).era, None);
        failure(tool(&server, gateway(), &named("x"))).await;
        assert_eq!(starts(&scripts), [1, 1, 0], "{mode}");
    }
}

#[tokio::test]
async fn a_program_that_changes_its_era_at_each_start_is_used() {
    let scripts = Scripts::new();
    let turns = ChangingServer::new(|start| server(if start % 2 == 0 { "code-32601" } else { "only" }));
    let (supervisor, server) = knowing(changing(&scripts, turns), Era::Modern, HOUR).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "only");
    assert_eq!(era(&supervisor).0, "modern");
    assert_eq!(starts(&scripts), [2, 2, 1], "it is not started without end");
}

#[tokio::test]
async fn a_server_over_http_that_rejects_the_handshake_is_detected_again() {
    let error = |code: i64| json!({ "error": { "code": code, "message": "no" } });
    for (code, answer) in [(400, error(-32602)), (404, error(-32601)), (400, error(-32020)), (404, Value::Null)] {
        let introduced = server_info(&["2026-07-28"]);
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => Some(answered(seen, 200, &introduced)),
            "initialize" => Some(answered(seen, code, &answer)),
            _ => None,
        })
        .await;
        let (supervisor, _) = knowing(auto(&peer), Era::Legacy, HOUR).await;
        assert_eq!(era(&supervisor), ("modern".to_owned(), EraSource::Probed), "{code}");
    }
}

#[tokio::test]
async fn a_server_over_http_that_has_sessions_now_is_detected_again() {
    for (code, answer) in [(400, json!({ "error": { "code": -32000, "message": "no session" } })), (404, Value::Null)] {
        let peer = Peer::start(move |seen| match seen.method() {
            "server/discover" => Some(answered(seen, code, &answer)),
            _ => None,
        })
        .await;
        let (supervisor, _) = knowing(auto(&peer), Era::Modern, HOUR).await;
        assert_eq!(era(&supervisor), ("legacy".to_owned(), EraSource::Probed), "{code}");
    }
}

#[tokio::test]
async fn a_server_over_http_that_does_not_answer_keeps_its_era() {
    for (code, of) in [(503, Era::Modern), (401, Era::Modern), (503, Era::Legacy), (401, Era::Legacy)] {
        let peer = Peer::start(move |seen| (seen.verb == Verb::POST).then(|| status(code))).await;
        let (supervisor, server) = knowing(auto(&peer), of, HOUR).await;
        assert_eq!(supervisor.status().remove(0).era, None, "nothing has borne it out");
        assert_eq!(known(&supervisor), [(of, ManualClock::default().now() - HOUR)]);
        failure(tool(&server, gateway(), &named("x"))).await;
    }
}

#[tokio::test]
async fn a_call_during_a_new_detection_is_answered() {
    for (mode, before) in [("code-32601", Era::Modern), ("only", Era::Legacy)] {
        let scripts = Scripts::new();
        let supervisor = beginning(spec(&scripts, mode), before, HOUR);
        let server = supervisor.servers().remove(0).server;
        for caller in [client("one", "{}"), client("two", r#"{"elicitation":{}}"#), gateway()] {
            assert_eq!(text(tool(&server, caller, &named("x"))).await, mode);
        }
    }
}

#[tokio::test]
async fn known_eras_are_reported_and_those_of_other_servers_are_dropped() {
    let (found, told, stranger) = (Scripts::new(), Scripts::new(), Digest::sha256("another"));
    let asked = spec(&found, "dual");
    let server = asked.transport.server().unwrap();
    let configured = BackendSpec { era: EraChoice::Legacy, ..spec(&told, "dual") };
    let clock = ManualClock::default();
    let now = clock.now();
    let known = |server| KnownEra { server, era: Era::Legacy, found: now - HOUR * 48 };
    let before = vec![known(stranger), known(configured.transport.server().unwrap()), known(server)];
    let supervisor = start_knowing(vec![asked, configured], before, Arc::new(clock));
    assert!(supervisor.ready(SOON).await);
    assert_eq!(supervisor.eras(), [KnownEra { server, era: Era::Legacy, found: now }]);
}

/// A server of both eras.
async fn both() -> Peer {
    let introduced = server_info(&["2025-11-25", "2026-07-28"]);
    Peer::start(move |seen: &Seen| match seen.method() {
        "server/discover" => Some(answered(seen, 200, &introduced)),
        "initialize" => Some(reply(&seen.result(&greeting("2025-11-25")))),
        _ => None,
    })
    .await
}

fn auto(peer: &Peer) -> BackendSpec {
    BackendSpec { era: EraChoice::Auto, ..peer.spec() }
}
