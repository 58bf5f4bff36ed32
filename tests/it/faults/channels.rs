//! Faults of a server's program: a process, or the same process behind HTTP+SSE, a WebSocket, a socket or Streamable HTTP.

use metrics_exporter_prometheus::PrometheusBuilder;

use super::bench::{
    Bench,
    Way::{self, Http, ModernHttp, ModernStdio, ModernUnix, ModernWebSocket, Sse, Stdio, Unix, WebSocket},
};
use super::end::End::{self, Answered, Failed, Silent};
use crate::backend::scripted_servers::SOON;

/// Every way to the program.
pub(super) const WAYS: &[Way] =
    &[Stdio, Sse, WebSocket, Unix, Http, ModernStdio, ModernWebSocket, ModernUnix, ModernHttp];
/// Every way on which one channel carries all messages. What cannot happen otherwise, or happens within one answer, is
/// in `http.rs`.
const CHANNELS: &[Way] = &[Stdio, Sse, WebSocket, Unix, ModernStdio, ModernWebSocket, ModernUnix];

/// The tools of both servers.
const BOTH: &str = "sick__look sick__trouble fine__look fine__trouble";
/// The tools of the fine server.
const FINE: &str = "fine__look fine__trouble";

/// A row of the table.
struct Fault {
    /// The mode of the server.
    mode: &'static str,
    over: &'static [Way],
    /// The call that meets the fault.
    call: End,
    /// Another call of the same client, right after it.
    next: End,
    /// The list of tools.
    tools: &'static str,
    /// The state in the status, and a part of its reason or of its warning.
    state: (&'static str, &'static str),
    /// The outcome under which the metrics count the call that meets the fault.
    counted: &'static str,
}

const FAULTS: &[Fault] = &[
    Fault {
        mode: "exits at start",
        over: WAYS,
        call: Failed("`sick` is not available"),
        next: Failed("`sick` is not available"),
        tools: FINE,
        state: ("failed", ""),
        counted: "unavailable",
    },
    Fault {
        mode: "exits in the handshake",
        over: WAYS,
        call: Failed("`sick` is not available"),
        next: Failed("`sick` is not available"),
        tools: FINE,
        state: ("failed", ""),
        counted: "unavailable",
    },
    Fault {
        mode: "never answers the handshake",
        over: WAYS,
        call: Failed("the server did not complete its handshake within 1 s"),
        next: Failed("the server did not complete its handshake within 1 s"),
        tools: FINE,
        state: ("failed", "raise `start_timeout`"),
        counted: "unavailable",
    },
    Fault {
        mode: "exits in a call",
        over: WAYS,
        call: Failed("The connection to server `sick` was lost"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "never answers",
        over: WAYS,
        call: Silent,
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "floods",
        over: &[Stdio, Unix, ModernStdio, ModernUnix],
        call: Failed("a line is longer than 16777216 bytes"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "floods",
        over: &[Sse, Http, ModernHttp],
        call: Failed("an event is larger than 16777216 bytes"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "floods",
        over: &[WebSocket, ModernWebSocket],
        call: Failed("the connection broke (Space limit exceeded: Message too long"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "prints text",
        over: &[Stdio, ModernStdio],
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", "it prints text on its standard output"),
        counted: "ok",
    },
    Fault {
        mode: "prints text",
        over: &[Sse, WebSocket, Unix, Http, ModernWebSocket, ModernUnix, ModernHttp],
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "prints a banner",
        over: &[Stdio, ModernStdio],
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes null",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "stops reading",
        over: CHANNELS,
        call: Silent,
        next: Silent,
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "closes its output",
        over: WAYS,
        call: Failed("The connection to server `sick` was lost"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "ignores TERM",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers twice",
        over: CHANNELS,
        call: Answered("first"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers an unknown id",
        over: CHANNELS,
        call: Answered("first"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers with a text",
        over: WAYS,
        call: Failed("Server `sick` broke the protocol: the result is not an object"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "answers with both",
        over: WAYS,
        call: Failed("broke the protocol, its answer cannot be read: it has both `result` and `error`"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "answers with a list for the error",
        over: WAYS,
        call: Failed("broke the protocol, its answer cannot be read: `error` is no error object"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "adds a null error",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes the code as text",
        over: WAYS,
        call: Failed("unwell"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "logs what looks like an answer",
        over: CHANNELS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers under a text",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers under a fraction",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes null members",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes the error as text",
        over: WAYS,
        call: Failed("unwell"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "writes Latin-1",
        over: &[Stdio, Sse, Unix, Http, ModernStdio, ModernUnix, ModernHttp],
        call: Answered("caf\u{fffd}"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes a tab in a text",
        over: WAYS,
        call: Failed("broke the protocol, its answer cannot be read: it is no valid JSON"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "begins with a byte order mark",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "colours its answer",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "logs an answer in a line",
        over: CHANNELS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "writes null for the structure",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "repeats a tool",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "answers with neither",
        over: CHANNELS,
        call: Silent,
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "error",
    },
    Fault {
        mode: "breaks its output schema",
        over: WAYS,
        call: Answered("broken"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", "the `structuredContent` of tool `trouble` does not fit its `outputSchema`: /sum is a string"),
        counted: "ok",
    },
    Fault {
        mode: "repeats its cursor",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: BOTH,
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "loops its cursor",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: "sick__look sick__trouble sick__page_b sick__page_a fine__look fine__trouble",
        state: ("ready", ""),
        counted: "ok",
    },
    Fault {
        mode: "lists no list",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: FINE,
        state: ("ready", "with something that is no list"),
        counted: "ok",
    },
    Fault {
        mode: "fails to list",
        over: WAYS,
        call: Answered("well"),
        next: Answered("looked"),
        tools: FINE,
        state: ("ready", "with an error: no list today (-32603)"),
        counted: "ok",
    },
];

/// Runs all rows over one way, one after another.
async fn run(way: Way) {
    let mut wrong = Vec::new();
    for fault in FAULTS.iter().filter(|fault| fault.over.contains(&way)) {
        if let Err(what) = fault.run(way).await {
            wrong.push(format!("{} over {way:?}: {what}", fault.mode));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Fault {
    async fn run(&self, way: Way) -> Result<(), String> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let bench = Bench::start(way, self.mode, recorder.handle()).await;
        if let Silent = self.call {
            // both have to be there before time passes
            Answered("looked").check("the call before", &bench.call("one", "sick__look").await)?;
            self.call.check("the call", &bench.call_silent("one", "sick__trouble").await)?;
        } else {
            let (ended, fine) = tokio::join!(bench.call("one", "sick__trouble"), bench.call("one", "fine__look"));
            self.call.check("the call", &ended)?;
            Answered("looked").check("another server meanwhile", &fine)?;
        }
        let next = match self.next {
            Silent => bench.call_silent("one", "sick__look").await,
            _ => bench.call("one", "sick__look").await,
        };
        self.next.check("the next call", &next)?;
        Answered("looked").check("another server", &bench.call("one", "fine__look").await)?;
        let healthy = if self.state.0 == "ready" { Answered("looked") } else { self.next };
        healthy.check("a call of another client", &bench.call("two", "sick__look").await)?;
        let tools = bench.client("one").tools().await;
        if tools != self.tools {
            return Err(format!("the list: {tools}"));
        }
        let status = bench.status();
        let (reason, no_tools) = (status.state.reason().unwrap_or_default(), status.lacks_tools().unwrap_or_default());
        let told = format!("{reason} {no_tools} {}", status.warnings.join(" "));
        if status.state.word() != self.state.0 || !told.contains(self.state.1) {
            return Err(format!("the status: {} {told}", status.state.word()));
        }
        if status.state.word() == "ready" && status.protocol_version.as_deref() != Some(way.version()) {
            return Err(format!("the version: {:?}", status.protocol_version));
        }
        let labels = ["server=\"sick\"", "method=\"tools/call\"", &format!("outcome=\"{}\"", self.counted)];
        if bench.metric("lockkeeper_server_calls_total", &labels) < 1.0 {
            return Err(format!("not counted as {}", self.counted));
        }
        tokio::time::timeout(SOON, bench.supervisor.shutdown()).await.map_err(|_| "the gateway does not end".to_owned())
    }
}

#[tokio::test]
async fn faults_of_a_process_have_their_defined_effect() {
    run(Stdio).await;
}

#[tokio::test]
async fn faults_over_http_sse_have_their_defined_effect() {
    run(Sse).await;
}

#[tokio::test]
async fn faults_over_a_websocket_have_their_defined_effect() {
    run(WebSocket).await;
}

#[tokio::test]
async fn faults_over_a_socket_have_their_defined_effect() {
    run(Unix).await;
}

#[tokio::test]
async fn faults_behind_streamable_http_have_their_defined_effect() {
    run(Http).await;
}

#[tokio::test]
async fn faults_of_a_modern_server_behind_streamable_http_have_their_defined_effect() {
    run(ModernHttp).await;
}

#[tokio::test]
async fn faults_of_a_modern_process_have_their_defined_effect() {
    run(ModernStdio).await;
}

#[tokio::test]
async fn faults_of_a_modern_server_over_a_websocket_have_their_defined_effect() {
    run(ModernWebSocket).await;
}

#[tokio::test]
async fn faults_of_a_modern_server_over_a_socket_have_their_defined_effect() {
    run(ModernUnix).await;
}
