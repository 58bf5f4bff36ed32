//! Connections whose other side is gone without a word: a call fails after its silence, a WebSocket after that of its
//! pings, and what lies idle is probed by TCP, whose timer the kernel shows.

use std::{fs, sync::Arc, time::Duration};

use http::Method as Verb;
use lockkeeper::model::{EraChoice, HttpSpec, SocketAddress, TransportSpec, status::BackendState};
use metrics_exporter_prometheus::PrometheusBuilder;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{bench::Bench, sick::Sick};
use crate::{
    backend::scripted_servers::{hold_time, pass, until},
    kit::{
        carriers::{Carrier, Hosted},
        peer::{Peer, Seen, Step},
    },
};

/// The longest time of an idle connection before TCP probes it.
const PROBED_AFTER: Duration = Duration::from_mins(1);

fn sick(carrier: Carrier, mode: &str) -> Hosted {
    Hosted::start(carrier, Arc::new(Sick::new(mode, false, (String::new(), CancellationToken::new()))))
}

fn bench(transport: TransportSpec) -> Bench {
    Bench::start_with(
        transport,
        EraChoice::Legacy,
        (TempDir::new().unwrap(), PrometheusBuilder::new().build_recorder().handle()),
    )
}

/// The time until the kernel probes an idle connection to this port, if it will.
fn probe_in(remote: u16) -> Option<Duration> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let timers = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(2)?.ends_with(&format!(":{remote:04X}"));
        // 02: the keep-alive timer, and its hundredths of a second
        fields.get(5)?.strip_prefix("02:").filter(|_| is_it)
    });
    let ticks = timers.filter_map(|ticks| u64::from_str_radix(ticks, 16).ok()).max()?;
    Some(Duration::from_millis(ticks * 10))
}

#[tokio::test]
async fn an_idle_socket_of_tcp_is_probed_within_a_minute() {
    let server = sick(Carrier::Tcp, "none");
    let TransportSpec::Socket(SocketAddress::Tcp { port, .. }) = server.transport() else { panic!("it is one of TCP") };
    let bench = bench(server.transport());
    bench.settle().await;
    let probed = until("the timer of the connection", || probe_in(port)).await;
    assert!(probed <= PROBED_AFTER, "{probed:?}");
}

#[tokio::test]
async fn an_idle_stream_of_http_sse_is_probed_within_a_minute() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n";
    let peer = Peer::start_raw(move |seen: &Seen| {
        let stream = || vec![Step::Write(head.as_bytes().to_vec()), Step::Silence];
        (seen.verb == Verb::GET).then(stream)
    });
    let peer = peer.await;
    let _bench = bench(TransportSpec::Sse(HttpSpec::new(peer.url().parse().unwrap())));
    let streams = || peer.seen().iter().any(|seen| seen.verb == Verb::GET).then_some(());
    until("the stream", streams).await;
    let probed = until("the timer of the connection", || probe_in(peer.address.port())).await;
    assert!(probed <= PROBED_AFTER, "{probed:?}");
}

#[tokio::test]
async fn a_websocket_that_answers_no_pings_is_lost_before_its_call_is_given_up() {
    // it is there, and from the call on it reads nothing more
    let server = sick(Carrier::WebSocket, "stops reading");
    let bench = Bench::start_silent_for(
        (server.transport(), Duration::from_mins(10)),
        (TempDir::new().unwrap(), PrometheusBuilder::new().build_recorder().handle()),
    );
    bench.settle().await;
    let held = hold_time();
    let mut call = std::pin::pin!(bench.call("one", "sick__trouble"));
    let mut passed = Duration::ZERO;
    let error = loop {
        let step = Duration::from_secs(1);
        tokio::select! {
            biased;
            ended = &mut call => break ended.unwrap_err(),
            () = async {
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
                pass(step).await;
            } => passed += step,
        }
    };
    drop(held);
    assert!(error.contains("the server does not answer pings any more"), "{error}");
    assert!(passed <= Duration::from_mins(2), "{passed:?}");
    assert_eq!(bench.call("one", "fine__look").await.unwrap(), "looked");
    until("the status", || matches!(bench.status().state, BackendState::Ready).then_some(())).await;
}
