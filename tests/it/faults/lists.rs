//! Lists that change, are long, or do not end, beside calls that go on.

use std::{fs, time::Duration};

use futures_util::FutureExt as _;
use lockkeeper::mcp::{Event, Method};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};

use super::{
    bench::{
        Bench,
        Way::{Http, ModernHttp, ModernStdio, Sse, Stdio, Unix, WebSocket},
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
async fn a_name_that_is_listed_twice_is_shown_once_and_reported() {
    for &way in WAYS {
        let bench = Bench::start(way, "repeats a tool", unwatched()).await;
        let left_out = bench.gateway.left_out(&id("sick"));
        assert_eq!(left_out.len(), 1, "{way:?}: {left_out:?}");
        assert!(left_out[0].name == "look" && left_out[0].reason.contains("twice"), "{left_out:?}");
    }
}

#[tokio::test]
async fn structured_content_that_is_null_is_none_of_a_server_with_sessions() {
    for way in [Stdio, Sse, WebSocket, Unix, Http] {
        let bench = Bench::start(way, "writes null for the structure", unwatched()).await;
        let result = bench.client("one").ask(Method::ToolsCall, r#"{"name":"sick__trouble"}"#).await;
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(result, json!({ "content": [{ "type": "text", "text": "well" }] }), "{way:?}");
    }
}

#[tokio::test]
async fn a_server_that_reports_a_change_with_each_list_is_asked_less_and_less() {
    for &way in WAYS {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let bench = Bench::start(way, "changes with each list", recorder.handle()).await;
        let held = hold_time();
        let mut lists = Vec::new();
        for _ in 0..3 {
            for _ in 0..100 {
                pass(Duration::from_millis(600)).await;
                assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
            }
            lists.push(bench.metric("lockkeeper_catalog_fetches_total", &["server=\"sick\"", "outcome=\"ok\""]));
        }
        drop(held);
        // in the first minute the pauses grow, later there is one fetch a minute
        assert!(lists[0] < 40.0 && lists[2] - lists[1] <= 4.0, "{way:?}: {lists:?}");
        assert_eq!(bench.client("one").tools().await, "sick__look sick__trouble fine__look fine__trouble");
    }
}

#[tokio::test]
async fn a_list_that_changes_in_a_call_is_another_one_for_all_whom_it_concerns() {
    for &way in WAYS {
        let bench = Bench::start(way, "changes in a call", unwatched()).await;
        let (one, two) = (bench.client("one"), bench.client("two"));
        let (mut own, mut other) = (one.call(Method::Listen, ""), two.call(Method::Listen, ""));
        // they begin when they are read
        for listen in [&mut own, &mut other] {
            assert!(listen.next_event().now_or_never().is_none());
        }
        for session in ["one", "two"] {
            assert_eq!(bench.call(session, "sick__look").await.unwrap(), "looked");
        }
        let mut call = one.call(Method::ToolsCall, r#"{"name":"sick__trouble"}"#);
        let mut told_in_call = 0;
        while let Event::Notified(told) = next(&mut call).await {
            assert_eq!(told.method, Method::ToolsListChanged);
            told_in_call += 1;
        }
        assert_eq!(told_in_call, usize::from(matches!(way, Http | ModernHttp)), "{way:?}");
        let Event::Notified(told) = next(&mut own).await else { panic!("no notification over {way:?}") };
        assert_eq!(told.method, Method::ToolsListChanged);
        let changed = "sick__look sick__trouble sick__new0 fine__look fine__trouble";
        assert_eq!(one.tools().await, changed, "{way:?}");
        // one server behind an address has one list for all
        if let Http | ModernHttp = way {
            let Event::Notified(told) = next(&mut other).await else { panic!("no notification over {way:?}") };
            assert_eq!(told.method, Method::ToolsListChanged);
            for client in [two, bench.client("new")] {
                assert_eq!(client.tools().await, changed, "{way:?}");
            }
        }
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
            pass(Duration::from_secs(1)).await;
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
