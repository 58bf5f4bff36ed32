//! Programs that die in calls, leave daemons, or hang.

use std::time::Duration;

use lockkeeper::model::{Share, status::BackendState};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::bench::{
    Bench,
    Way::{ModernStdio, ModernUnix, Sse, Stdio, Unix},
};
use crate::backend::scripted_servers::{hold_time, pass, until};

/// Metrics that nobody reads.
fn unwatched() -> PrometheusHandle {
    PrometheusBuilder::new().build_recorder().handle()
}

#[tokio::test]
async fn a_shared_program_that_dies_in_calls_of_one_client_serves_others_at_once() {
    for way in [Stdio, ModernStdio] {
        let bench = Bench::start_shared(way, "exits in a call", Share::All).await;
        for death in 1..=6 {
            let error = bench.call("one", "sick__trouble").await.unwrap_err();
            assert!(error.contains("The connection to server `sick` was lost"), "{way:?}, death {death}: {error}");
            assert_eq!(bench.call("two", "sick__look").await.unwrap(), "looked", "{way:?}, death {death}");
        }
    }
}

#[tokio::test]
async fn a_shared_program_that_dies_in_every_call_is_away_for_a_second_at_most() {
    let bench = Bench::start_shared(Stdio, "exits in a call", Share::All).await;
    for _ in 0..4 {
        while !bench.call("one", "sick__trouble").await.unwrap_err().contains("was lost") {
            if let BackendState::Failed { retry_in, .. } = bench.status().state {
                assert!(retry_in <= Some(1), "{retry_in:?}");
            }
            tokio::task::yield_now().await;
        }
    }
    until("the other client's call", || match bench.status().state {
        BackendState::Ready => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(bench.call("two", "sick__look").await.unwrap(), "looked");
}

#[tokio::test]
async fn a_daemon_that_keeps_the_output_open_hides_no_end() {
    for way in [Stdio, ModernStdio] {
        let bench = Bench::start(way, "leaves a daemon", unwatched()).await;
        // not only once the call has timed out
        let error = bench.call("one", "sick__trouble").await.unwrap_err();
        assert!(error.contains("the process exited (exit status: 3)"), "{way:?}: {error}");
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
    }
}

#[tokio::test]
async fn a_program_without_a_sign_of_life_in_two_calls_and_to_a_ping_is_replaced() {
    // a WebSocket has pings of its own
    for way in [Stdio, Sse, Unix, ModernStdio, ModernUnix] {
        let bench = Bench::start(way, "stops reading", unwatched()).await;
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked");
        bench.call_silent("one", "sick__trouble").await.unwrap_err();
        let held = hold_time();
        for _ in 0..20 {
            pass(Duration::from_secs(5)).await;
        }
        drop(held);
        let told = "it was replaced once: it gave no sign of life in calls, and did not answer a ping";
        assert!(!bench.status().warnings.iter().any(|warning| warning == told), "{way:?}: one silent call is none");
        bench.call_silent("one", "sick__look").await.unwrap_err();
        let held = hold_time();
        for _ in 0..8 {
            pass(Duration::from_secs(5)).await;
        }
        drop(held);
        assert_eq!(bench.call("one", "sick__look").await.unwrap(), "looked", "{way:?}");
        assert!(
            bench.status().warnings.iter().any(|warning| warning == told),
            "{way:?}: {:?}",
            bench.status().warnings
        );
    }
}
