//! Faults of a server over Streamable HTTP, in its answer to a call.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper::model::{
    EraChoice::{self, Legacy, Modern},
    HttpSpec, TransportSpec,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    bench::Bench,
    end::End::{self, Answered, Failed, Silent},
};
use crate::{
    backend::scripted_servers::SOON,
    kit::peer::{
        Peer, Seen,
        Step::{self, Close, Drip, Reset, Silence, Write},
        text_of,
    },
};

/// The steps of the answer to a call of `trouble`, by the id of its request and the number of calls before it.
type Script = fn(&Value, usize) -> Vec<Step>;

/// A row of the table. After each, the server answers its next call, its tools stay listed, and it is ready.
struct HttpFault {
    mode: &'static str,
    /// The servers that it can happen to.
    of: &'static [EraChoice],
    answer: Script,
    call: End,
    counted: &'static str,
}

/// The answer to anything else than a call of `trouble`; `None` if the plain one does.
fn healthy(seen: &Seen) -> Option<Vec<Step>> {
    let about = json!({ "name": "raw", "version": "1" });
    let mut headers = "";
    let result = match seen.method() {
        "server/discover" => json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": about } }),
        "initialize" => {
            headers = "Mcp-Session-Id: s\r\n";
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": about })
        }
        "tools/list" => {
            let tools = ["look", "trouble"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })
        }
        "tools/call" => return Some(vec![Write(answer("200 OK", "", &text(&seen.body["id"], "looked")))]),
        _ => return None,
    };
    Some(vec![Write(answer("200 OK", headers, seen.result(&result).to_string().as_bytes()))])
}

/// A whole response with a JSON body.
fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let head = format!("HTTP/1.1 {status}\r\n{kind}{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A response with these bytes of an event stream, which ends with the connection.
fn stream(bytes: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", bytes].concat()
}

/// The result of a tool with this text, for servers of each era: older ones may add members.
fn text(id: &Value, text: &str) -> Vec<u8> {
    let mut result = text_of(text);
    result["resultType"] = "complete".into();
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string().into_bytes()
}

/// An event with the answer to this request.
fn event(id: &Value, end: &str) -> Vec<u8> {
    [b"data: ", text(id, "well").as_slice(), end.as_bytes()].concat()
}

fn status(status: &str, headers: &str) -> Vec<Step> {
    vec![Write(answer(status, headers, b""))]
}

/// A response in one chunk, with these headers for its length.
fn chunked(lengths: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{lengths}\r\n{:x}\r\n", body.len());
    [head.as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

/// Servers with sessions, and those of 2026-07-28.
const BOTH: &[EraChoice] = &[Legacy, Modern];

const FAULTS: &[HttpFault] = &[
    HttpFault {
        mode: "500",
        of: BOTH,
        answer: |_, _| status("500 Internal Server Error", ""),
        call: Failed("the server failed (500"),
        counted: "error",
    },
    HttpFault {
        mode: "429 with Retry-After",
        of: BOTH,
        answer: |_, _| status("429 Too Many Requests", "Retry-After: 7\r\n"),
        call: Failed("the server is overloaded (429"),
        counted: "error",
    },
    HttpFault {
        mode: "404 once",
        of: &[Legacy],
        answer: |id, before| match before {
            0 => status("404 Not Found", ""),
            _ => vec![Write(answer("200 OK", "", &text(id, "well")))],
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "404 always",
        of: &[Legacy],
        answer: |_, _| status("404 Not Found", ""),
        call: Failed("the server has forgotten the session (404)"),
        counted: "lost",
    },
    HttpFault {
        mode: "404 of a modern server",
        of: &[Modern],
        answer: |_, _| status("404 Not Found", ""),
        call: Failed("the server answered 404 Not Found: is its URL the MCP endpoint?"),
        counted: "error",
    },
    HttpFault {
        mode: "401",
        of: BOTH,
        answer: |_, _| status("401 Unauthorized", "WWW-Authenticate: Bearer\r\n"),
        call: Failed("the server turned the gateway away (401"),
        counted: "error",
    },
    HttpFault {
        mode: "redirect",
        of: BOTH,
        answer: |_, _| status("307 Temporary Redirect", "Location: https://elsewhere.example/mcp\r\n"),
        call: Failed("to https://elsewhere.example/mcp: give the right address"),
        counted: "error",
    },
    HttpFault {
        mode: "reset before the answer",
        of: BOTH,
        answer: |_, _| vec![Reset],
        call: Failed("The connection to server `sick` was lost"),
        counted: "error",
    },
    HttpFault {
        mode: "reset in the stream",
        of: BOTH,
        answer: |_, _| vec![Write(stream(b": begun\n\n")), Reset],
        call: Failed("The connection to server `sick` was lost"),
        counted: "error",
    },
    HttpFault { mode: "half-open in a call", of: BOTH, answer: |_, _| vec![Silence], call: Silent, counted: "error" },
    HttpFault {
        mode: "half-open in the stream",
        of: BOTH,
        answer: |_, _| vec![Write(stream(b": begun\n\n")), Silence],
        call: Silent,
        counted: "error",
    },
    HttpFault {
        mode: "64 KiB header",
        of: BOTH,
        answer: |id, _| {
            let header = format!("X-Long: {}\r\n", "x".repeat(64 << 10));
            vec![Write(answer("200 OK", &header, &text(id, "well")))]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "header without end",
        of: BOTH,
        answer: |_, _| vec![Write(format!("HTTP/1.1 200 OK\r\nX-Long: {}", "x".repeat(1 << 20)).into_bytes()), Silence],
        call: Failed("The connection to server `sick` was lost"),
        counted: "error",
    },
    HttpFault {
        mode: "slow drip",
        of: BOTH,
        answer: |id, _| vec![Drip(answer("200 OK", "", &text(id, "well")))],
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "body cut short",
        of: BOTH,
        answer: |_, _| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
            vec![Write(head.as_bytes().to_vec()), Close]
        },
        call: Failed("The connection to server `sick` was lost"),
        counted: "error",
    },
    HttpFault {
        mode: "other transfer coding",
        of: BOTH,
        answer: |id, _| vec![Write(chunked("Transfer-Encoding: gzip, chunked\r\n", &text(id, "well")))],
        call: Failed("the server sends its answer with `Transfer-Encoding: gzip, chunked`; only `chunked` is read"),
        counted: "error",
    },
    HttpFault {
        mode: "two lengths",
        of: BOTH,
        answer: |id, _| {
            let smuggled = answer("200 OK", "", &text(id, "of another"));
            let lengths = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n";
            vec![Write([chunked(lengths, &text(id, "well")), smuggled].concat())]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "101",
        of: BOTH,
        answer: |_, _| status("101 Switching Protocols", "Upgrade: websocket\r\nConnection: upgrade\r\n"),
        call: Failed("the server answered 101 (Switching Protocols), which the gateway did not ask for"),
        counted: "error",
    },
    HttpFault {
        mode: "stream without final blank line",
        of: BOTH,
        answer: |id, _| vec![Write(stream(&event(id, "\n"))), Close],
        call: Failed("the server closed the stream before its answer"),
        counted: "error",
    },
    HttpFault {
        mode: "stream with CR",
        of: BOTH,
        answer: |id, _| vec![Write(stream(&event(id, "\r\r"))), Close],
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "stream with BOM",
        of: BOTH,
        answer: |id, _| vec![Write(stream(&[b"\xef\xbb\xbf", event(id, "\n\n").as_slice()].concat())), Close],
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "JSON that is no message",
        of: BOTH,
        answer: |id, _| {
            let neither = json!({ "jsonrpc": "2.0", "id": id }).to_string();
            vec![Write(answer("200 OK", "", neither.as_bytes()))]
        },
        call: Failed("the answer is no JSON-RPC message"),
        counted: "error",
    },
    HttpFault {
        mode: "two answers in a stream",
        of: BOTH,
        answer: |id, _| {
            let second = [b"data: ", text(id, "again").as_slice(), b"\n\n"].concat();
            vec![Write(stream(&[event(id, "\n\n"), second].concat())), Close]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "stray answers in a stream",
        of: BOTH,
        answer: |id, _| {
            let stray = [event(&json!(987_654), "\n\n"), event(&json!("whose"), "\n\n")].concat();
            vec![Write(stream(&[stray, event(id, "\n\n")].concat())), Close]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "10 MB event",
        of: BOTH,
        answer: |id, _| {
            let log = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{}\"}}}}\n\n",
                "x".repeat(10 << 20)
            );
            vec![Write(stream(&[log.as_bytes(), &event(id, "\n\n")].concat())), Close]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "20 MB event",
        of: BOTH,
        answer: |_, _| vec![Write(stream(b"data: ")), Write(vec![b'x'; 20 << 20]), Silence],
        call: Failed("an event is larger than 16777216 bytes"),
        counted: "error",
    },
    HttpFault {
        mode: "stream with comments before the answer",
        of: BOTH,
        answer: |id, _| {
            let comments = ": still here\n\n".repeat((17 << 20) / 14);
            vec![Write(stream(&[comments.as_bytes(), &event(id, "\n\n")].concat())), Close]
        },
        call: Answered("well"),
        counted: "ok",
    },
    HttpFault {
        mode: "stream with comments only",
        of: BOTH,
        answer: |_, _| vec![Write(stream(": still here\n\n".repeat(100).as_bytes())), Close],
        call: Failed("the server closed the stream before its answer"),
        counted: "error",
    },
];

impl HttpFault {
    async fn run(&self, era: EraChoice) -> Result<(), String> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let (script, calls) = (self.answer, AtomicUsize::new(0));
        let peer = Peer::start_raw(move |seen| {
            let trouble = || script(&seen.body["id"], calls.fetch_add(1, Ordering::SeqCst));
            if seen.is_tool("trouble") { Some(trouble()) } else { healthy(seen) }
        });
        let peer = peer.await;
        let transport = TransportSpec::Http(HttpSpec::new(peer.url().parse().unwrap()));
        let bench = Bench::start_with(transport, era, (TempDir::new().unwrap(), recorder.handle()));
        bench.settle().await;
        Answered("looked").check("the call before", &bench.call("one", "sick__look").await)?;
        let ended = match self.call {
            Silent => bench.call_silent("one", "sick__trouble").await,
            _ => bench.call("one", "sick__trouble").await,
        };
        self.call.check("the call", &ended)?;
        for (session, tool) in [("one", "sick__look"), ("two", "sick__look"), ("one", "fine__look")] {
            Answered("looked").check(tool, &bench.call(session, tool).await)?;
        }
        let tools = bench.client("one").tools().await;
        if tools != "sick__look sick__trouble fine__look fine__trouble" {
            return Err(format!("the list: {tools}"));
        }
        let state = bench.status().state;
        if state.word() != "ready" {
            return Err(format!("the status: {state:?}"));
        }
        let labels = ["server=\"sick\"", "method=\"tools/call\"", &format!("outcome=\"{}\"", self.counted)];
        if bench.metric("lockkeeper_server_calls_total", &labels) < 1.0 {
            return Err(format!("not counted as {}", self.counted));
        }
        tokio::time::timeout(SOON, bench.supervisor.shutdown()).await.map_err(|_| "the gateway does not end".to_owned())
    }
}

async fn run(era: EraChoice) {
    let mut wrong = Vec::new();
    for fault in FAULTS.iter().filter(|fault| fault.of.contains(&era)) {
        if let Err(what) = fault.run(era).await {
            wrong.push(format!("{}: {what}", fault.mode));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn faults_over_streamable_http_have_their_defined_effect() {
    run(Legacy).await;
}

#[tokio::test]
async fn faults_of_a_modern_server_over_streamable_http_have_their_defined_effect() {
    run(Modern).await;
}
