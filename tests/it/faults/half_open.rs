//! Connections whose other side is gone without a word: a call fails after its silence, a WebSocket after that of its
//! pings, and what lies idle is probed by TCP, whose timer the kernel shows.

use std::{fs, time::Duration};

use lockkeeper::model::{EraChoice, HttpSpec, SocketAddress, TransportSpec, status::BackendState};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::{Message as Frame, handshake::server};

use super::bench::Bench;
use crate::backend::scripted_servers::{hold_time, pass, until};

/// The longest time of an idle connection before TCP probes it.
const PROBED_AFTER: Duration = Duration::from_mins(1);

/// The answer to a message of the handshake, if it has one.
fn answered(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "trouble", "inputSchema": { "type": "object" } }] }),
        _ => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn bench(transport: TransportSpec) -> Bench {
    Bench::start_with(
        transport,
        EraChoice::Legacy,
        (TempDir::new().unwrap(), PrometheusBuilder::new().build_recorder().handle()),
    )
}

/// The time until the kernel probes the idle connection between these ports, if it will.
fn probe_in(local: u16, remote: u16) -> Option<Duration> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let is_it = |fields: &Vec<&str>| {
        fields.get(1).is_some_and(|end| end.ends_with(&format!(":{local:04X}")))
            && fields.get(2).is_some_and(|end| end.ends_with(&format!(":{remote:04X}")))
    };
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(is_it)?;
    // 02: the keep-alive timer, and its hundredths of a second
    let ticks = fields.get(5)?.strip_prefix("02:")?;
    Some(Duration::from_millis(u64::from_str_radix(ticks, 16).ok()? * 10))
}

#[tokio::test]
async fn an_idle_socket_of_tcp_is_probed_within_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bench = bench(TransportSpec::Socket(SocketAddress::Tcp { host: "127.0.0.1".to_owned(), port }));
    let (stream, from) = listener.accept().await.unwrap();
    let mut served = JoinSet::new();
    served.spawn(serve_lines(stream));
    bench.settle().await;
    let probed = until("the timer of the connection", || probe_in(from.port(), port)).await;
    assert!(probed <= PROBED_AFTER, "{probed:?}");
}

async fn serve_lines(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        if let Some(answer) = answered(&serde_json::from_str(&line).unwrap()) {
            stream.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
        line.clear();
    }
}

#[tokio::test]
async fn an_idle_stream_of_http_sse_is_probed_within_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/sse").parse().unwrap();
    let _bench = bench(TransportSpec::Sse(HttpSpec::new(url)));
    let (mut stream, from) = listener.accept().await.unwrap();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages\n\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let probed = until("the timer of the connection", || probe_in(from.port(), port)).await;
    assert!(probed <= PROBED_AFTER, "{probed:?}");
}

/// Serves a WebSocket until it gets a call; then it is there, and reads and says nothing more.
async fn serve_until_a_call(stream: TcpStream) {
    use futures_util::{SinkExt as _, StreamExt as _};
    let with_protocol = |_: &server::Request, mut response: server::Response| {
        response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, with_protocol).await.unwrap();
    while let Some(Ok(frame)) = socket.next().await {
        let Frame::Text(text) = frame else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        if message["method"] == "tools/call" {
            std::future::pending::<()>().await;
        }
        if let Some(answer) = answered(&message) {
            socket.send(Frame::text(answer.to_string())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_websocket_that_answers_no_pings_is_lost_before_its_call_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let mut served = JoinSet::new();
    served.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve_until_a_call(stream));
        }
    });
    let bench = Bench::start_silent_for(
        (TransportSpec::WebSocket(HttpSpec::new(url)), Duration::from_mins(10)),
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
