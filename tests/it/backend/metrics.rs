//! What the metrics have of a server and its calls.

use std::time::Duration;

use lockkeeper::{
    backend::Supervisor,
    mcp::Method,
    model::{BackendSpec, OnLoss},
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use serde_json::json;
use tokio::task::JoinSet;

use super::scripted_servers::{
    Scripts, call, client, everyday, failure, hold_time, pass, person, start, started, text, tool, until,
};
use crate::kit::scripted::{Gate, Script};

fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new().set_buckets(&[1.0, 10.0]).unwrap().build_recorder()
}

/// The lines of a metric whose labels begin so.
fn lines(recorder: &PrometheusRecorder, begin: &str) -> Vec<String> {
    let rendered = recorder.handle().render();
    let mut lines: Vec<String> = rendered.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// If the only server is up, and the calls that run at it.
fn vitals(supervisor: &Supervisor) -> (Option<bool>, usize) {
    let vitals = supervisor.vitals().remove(0);
    (vitals.is_up, vitals.running_calls)
}

#[tokio::test]
async fn a_call_runs_until_its_end_and_is_counted_and_timed_then() {
    let recorder = recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let script = Script::everyday().hidden("slow", json!([["gate"], ["text", "done"]]));
    let (supervisor, server) = started(scripts.serve("docs", everyday(script).behind(&gate))).await;
    assert_eq!(vitals(&supervisor), (Some(true), 0));
    let held = hold_time();
    let mut running = JoinSet::new();
    for session in ["done", "given up"] {
        running.spawn(text(tool(&server, client(session, "{}"), &json!({ "name": "slow", "arguments": {} }))));
    }
    until_running(&supervisor, 2).await;
    pass(Duration::from_secs(3)).await;
    assert!(lines(&recorder, "lockkeeper_server_calls_total{").is_empty(), "nothing has ended");
    gate.open();
    assert_eq!(running.join_next().await.unwrap().unwrap(), "done");
    assert_eq!(running.join_next().await.unwrap().unwrap(), "done");
    drop(held);
    assert_eq!(vitals(&supervisor), (Some(true), 0));
    let of = r#"{server="docs",method="tools/call",outcome="#;
    assert_eq!(
        lines(&recorder, "lockkeeper_server_calls_total{"),
        [r#""error"} 0"#, r#""lost"} 0"#, r#""ok"} 2"#, r#""unavailable"} 0"#]
            .map(|end| format!("lockkeeper_server_calls_total{of}{end}")),
        "every end begins at zero"
    );
    let buckets = [r#""ok",le="+Inf"} 2"#, r#""ok",le="1"} 0"#, r#""ok",le="10"} 2"#];
    let buckets = buckets.map(|end| format!("lockkeeper_server_call_duration_seconds_bucket{of}{end}"));
    assert_eq!(lines(&recorder, "lockkeeper_server_call_duration_seconds_bucket{"), buckets);
}

/// Lets the calls go on until so many run, while the clock is held.
async fn until_running(supervisor: &Supervisor, count: usize) {
    for _ in 0..1_000 {
        if vitals(supervisor).1 == count {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{:?}", vitals(supervisor));
}

#[tokio::test]
async fn a_call_whose_client_is_gone_runs_no_more() {
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let script = Script::everyday().hidden("slow", json!([["gate"], ["text", "done"]]));
    let (supervisor, server) = started(scripts.serve("docs", everyday(script).behind(&gate))).await;
    let mut running = JoinSet::new();
    running.spawn(text(tool(&server, client("one", "{}"), &json!({ "name": "slow", "arguments": {} }))));
    until("the call", || (vitals(&supervisor) == (Some(true), 1)).then_some(())).await;
    running.shutdown().await;
    assert_eq!(vitals(&supervisor), (Some(true), 0));
    gate.open();
}

#[tokio::test]
async fn what_clients_make_up_is_no_label_and_hides_nobody_elses_calls() {
    let recorder = recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("docs")).await;
    for number in 0..50 {
        let hostile = || person("hostile", &format!("hostile-{number}"), "{}");
        failure(call(&server, hostile(), Method::parse(&format!("x/evil-{number}")), &json!({}))).await;
        let _ = tool(&server, hostile(), &json!({ "name": format!("evil-{number}"), "arguments": {} })).outcome().await;
    }
    let echo = json!({ "name": "echo", "arguments": { "text": "hello" } });
    assert_eq!(text(tool(&server, person("ann", "ann", "{}"), &echo)).await, "hello");
    let rendered = recorder.handle().render();
    assert!(!rendered.contains("evil") && !rendered.contains("hostile") && !rendered.contains("ann"), "{rendered}");
    let counted = lines(&recorder, "lockkeeper_server_calls_total{");
    assert_eq!(counted.len(), 8, "{counted:#?}");
    let other = r#"lockkeeper_server_calls_total{server="docs",method="other",outcome="error"} 50"#;
    assert!(counted.iter().any(|line| line == other), "{counted:#?}");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_down_and_its_calls_are_counted() {
    let recorder = recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let scripts = Scripts::new();
    let broken = json!([["give", { "error": { "code": -32000, "message": "no" } }]]);
    let broken = BackendSpec {
        on_loss: OnLoss::Reinit,
        ..scripts.serve("sick", everyday(Script::everyday().on("initialize", broken)))
    };
    let supervisor = start(vec![broken, scripts.spec("well")]);
    assert!(supervisor.ready(super::scripted_servers::SOON).await);
    let up = |supervisor: &Supervisor| supervisor.vitals().into_iter().map(|one| one.is_up).collect::<Vec<_>>();
    assert_eq!(up(&supervisor), [Some(false), Some(true)]);
    let server = supervisor.servers().remove(0).server;
    failure(tool(&server, client("one", "{}"), &json!({ "name": "echo" }))).await;
    let unavailable = r#"lockkeeper_server_calls_total{server="sick",method="tools/call",outcome="unavailable"} 1"#;
    assert_eq!(lines(&recorder, unavailable).len(), 1, "{:#?}", lines(&recorder, "lockkeeper_server_calls_total"));
}
