//! A batch of calls down one path, and what it tells.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    time::Instant,
};

use crate::{
    client::{Connection, Endpoint},
    peers::ANSWER,
};

/// The handshake of a session.
pub(crate) const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// One batch: how long each call took, and the CPU time of each measured process meanwhile.
pub(crate) struct Batch {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) cpu: Vec<Duration>,
    pub(crate) took: Duration,
}

/// All batches of a path together.
#[derive(Default)]
pub(crate) struct Figures {
    latencies: Vec<Duration>,
    cpu: Vec<Duration>,
    took: Duration,
}

/// Calls over HTTP, on as many kept connections as there are calls at once.
pub(crate) async fn over_http(
    endpoint: &Endpoint,
    connections: &mut [Connection],
    tool: &str,
    length: Duration,
) -> Result<Vec<Duration>> {
    let end = Instant::now() + length;
    let runs = connections.iter_mut().enumerate().map(async |(lane, connection)| {
        let mut latencies = Vec::new();
        let mut id = lane * 1_000_000;
        while Instant::now() < end {
            id += 1;
            let started = Instant::now();
            let answer = connection.post(endpoint, call(id, tool)).await?;
            latencies.push(started.elapsed());
            check(&answer, id)?;
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    Ok(try_join_all(runs).await?.concat())
}

/// Calls over pipes, `at_once` of them under way at any time, answered in their order.
pub(crate) async fn over_pipes(
    (input, output): (&mut ChildStdin, &mut BufReader<ChildStdout>),
    (at_once, length): (usize, Duration),
) -> Result<Vec<Duration>> {
    let end = Instant::now() + length;
    let (mut latencies, mut under_way, mut id, mut line) =
        (Vec::new(), std::collections::VecDeque::new(), 0, String::new());
    while Instant::now() < end || !under_way.is_empty() {
        while under_way.len() < at_once && Instant::now() < end {
            id += 1;
            under_way.push_back((id, Instant::now()));
            input.write_all(format!("{}\n", call(id, "pass")).as_bytes()).await?;
        }
        line.clear();
        ensure!(output.read_line(&mut line).await? > 0, "the backend ended");
        let (id, started) = under_way.pop_front().context("an answer to nothing")?;
        latencies.push(started.elapsed());
        check(line.as_bytes(), id)?;
    }
    Ok(latencies)
}

/// A call of a client with a session.
pub(crate) fn call(id: usize, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"a boat of ordinary size asks to pass"}}}}}}"#
    )
}

/// A call of a client of 2026-07-28.
pub(crate) fn modern_call(id: usize, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"a boat of ordinary size asks to pass"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

/// A benchmark that is answered with errors measures nothing.
pub(crate) fn check(answer: &[u8], id: usize) -> Result<()> {
    let text = std::str::from_utf8(answer)?;
    ensure!(text.contains(ANSWER) && text.contains(&format!("\"id\":{id}")), "a wrong answer: {text}");
    Ok(())
}

// === impl Figures ===

impl Figures {
    pub(crate) fn add(&mut self, batch: Batch) {
        self.latencies.extend(batch.latencies);
        self.cpu.resize(batch.cpu.len(), Duration::ZERO);
        for (sum, part) in self.cpu.iter_mut().zip(batch.cpu) {
            *sum += part;
        }
        self.took += batch.took;
    }

    /// The latency that this share of the calls, in thousandths, does not pass; in microseconds.
    pub(crate) fn latency(&mut self, thousandths: usize) -> f64 {
        self.latencies.sort_unstable();
        let at = (self.latencies.len() * thousandths / 1000).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    }

    /// CPU time per call of each measured process, in microseconds.
    pub(crate) fn cpu_per_call(&self) -> Vec<f64> {
        self.cpu.iter().map(|time| time.as_secs_f64() * 1e6 / self.count()).collect()
    }

    pub(crate) fn calls_per_second(&self) -> f64 {
        self.count() / self.took.as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 calls")]
    fn count(&self) -> f64 {
        self.latencies.len() as f64
    }
}
