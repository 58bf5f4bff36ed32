//! Lists that change, are long, or do not end, beside calls that go on.

use std::fs;

use lockkeeper::mcp::{Event, Method};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};

use super::{
    bench::{
        Bench,
        Way::{ModernStdio, Stdio},
    },
    channels::WAYS,
};
use crate::{
    backend::scripted_servers::{SOON, hold_time, next, pass, until},
    gateway::script::id,
};

/// Metrics that nobody reads.
fn unwatched() -> PrometheusHandle {
    PrometheusBuilder::new().build_recorder().handle()
}

#[tokio::test]
async fn a_list_that_loops_ends_once_and_the_status_says_so() {
    for (mode, way) in
        ["repeats its cursor", "loops its cursor"].into_iter().flat_map(|mode| WAYS.iter().map(move |way| (mode, *way)))
    {
        let bench = Bench::start(way, mode, unwatched()).await;
        let left_out = bench.gateway.left_out(&id("sick"));
        assert_eq!(left_out.len(), 1, "{mode} over {way:?}: {left_out:?}");
        assert!(left_out[0].reason.contains("repeats a `nextCursor`"), "{left_out:?}");
    }
}

#[tokio::test]
async fn a_result_that_breaks_its_output_schema_is_passed_on_unchanged() {
    for &way in WAYS {
        let bench = Bench::start(way, "breaks its output schema", unwatched()).await;
        let result = bench.client("one").ask(Method::ToolsCall, r#"{"name":"sick__trouble"}"#).await;
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(result["structuredContent"], json!({ "sum": "seven" }));
        assert_eq!(bench.client("one").tools().await, "sick__look sick__trouble fine__look fine__trouble");
    }
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_and_called() {
    for &way in WAYS {
        let bench = Bench::start(way, "lists many", unwatched()).await;
        let (mut tools, mut params) = (0, json!({}));
        loop {
            let page = bench.client("one").ask(Method::ToolsList, &params.to_string()).await;
            let page: Value = serde_json::from_str(&page).unwrap();
            tools += page["tools"].as_array().unwrap().len();
            if page["nextCursor"].is_null() {
                break;
            }
            params = json!({ "cursor": page["nextCursor"] });
        }
        assert_eq!(tools, 10_002, "{way:?}");
        assert_eq!(bench.call("one", "sick__tool9997").await.unwrap(), "looked");
        assert_eq!(bench.call("one", "fine__look").await.unwrap(), "looked");
    }
}

#[tokio::test]
async fn a_server_whose_tools_change_all_the_time_starves_nobody_and_each_list_is_whole() {
    for &way in WAYS {
        let bench = Bench::start(way, "changes its tools", unwatched()).await;
        let mut seen = Vec::new();
        let mut listen = bench.client("one").call(Method::Listen, "");
        // the list follows, and every reader gets one state of it
        while seen.len() < 3 {
            let list = bench.client("one").tools().await;
            let versions: Vec<&str> = list.split(' ').filter(|name| name.starts_with("sick__version")).collect();
            assert!(list.starts_with("sick__look sick__trouble sick__version") && versions.len() == 1, "{list}");
            assert!(list.ends_with("fine__look fine__trouble"), "{list}");
            let version = versions[0].to_owned();
            if !seen.contains(&version) {
                seen.push(version);
            }
            assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
            assert_eq!(bench.call("one", "fine__look").await.unwrap(), "looked");
            let Event::Notified(told) = next(&mut listen).await else { panic!("no notification over {way:?}") };
            assert_eq!(told.method, Method::ToolsListChanged);
        }
        tokio::time::timeout(SOON, bench.supervisor.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_after_45_seconds_is_passed_on_and_delays_nobody() {
    for &way in WAYS {
        let bench = Bench::start(way, "answers late", unwatched()).await;
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
        let mut late = Box::pin(bench.call("one", "sick__trouble"));
        tokio::select! {
            biased;
            ended = &mut late => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        let held = hold_time();
        for _ in 0..45 {
            pass(std::time::Duration::from_secs(1)).await;
        }
        drop(held);
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
        assert_eq!(bench.call("one", "fine__look").await.unwrap(), "looked");
        bench.late.cancel();
        assert_eq!(late.await.unwrap(), "late");
    }
}

#[tokio::test]
async fn grandchildren_end_with_their_server() {
    for &way in &[Stdio, ModernStdio] {
        let bench = Bench::start(way, "leaves grandchildren", unwatched()).await;
        let error = bench.call("one", "sick__trouble").await.unwrap_err();
        assert!(error.contains("the process exited (exit status: 3)"), "{way:?}: {error}");
        let grandchild = bench.number("grandchild").await;
        let lives = || {
            let status = fs::read_to_string(format!("/proc/{grandchild}/status")).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        until("the end of the grandchild", || (!lives()).then_some(())).await;
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
    }
}
