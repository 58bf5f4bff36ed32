//! A batch of calls along one path, and its results.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::{
    client::{Connection, Endpoint},
    peers::{ANSWER, Era, NOTES},
};

/// The server's work in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Work {
    Small,
    /// Answers 100 bytes to a client that uses TLS.
    Tls,
    Large,
    /// Sends 20 progress notifications, then answers.
    Notes,
    /// Opens a session; no call is made.
    Session,
}

/// One batch: the duration of each call, and the CPU time of the programs in between and of the backend.
pub(crate) struct Batch {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) cpu: [Duration; 2],
    pub(crate) took: Duration,
}

/// Calls over HTTP, on one persistent connection for each concurrent call.
pub(crate) async fn over_http(
    (endpoint, era): (&Endpoint, Era),
    connections: &mut [Connection],
    (tool, work): (&str, Work),
    length: Duration,
) -> Result<Vec<Duration>> {
    let end = Instant::now() + length;
    let runs = connections.iter_mut().enumerate().map(async |(lane, connection)| {
        let mut latencies = Vec::new();
        let mut id = lane * 1_000_000;
        while Instant::now() < end {
            id += 1;
            let started = Instant::now();
            if work == Work::Session {
                let session = endpoint.with_session(connection).await?;
                latencies.push(started.elapsed());
                session.end(connection).await?;
                continue;
            }
            let message = match (era, work) {
                (Era::Modern, _) => modern_call(id, tool),
                (Era::Legacy, Work::Notes) => call_with_progress(id, tool),
                (Era::Legacy, _) => call(id, tool),
            };
            let answer = connection.post(endpoint, message).await?;
            latencies.push(started.elapsed());
            check(&answer, id)?;
            if work == Work::Notes {
                let notes = memchr::memmem::find_iter(&answer, "notifications/progress").count();
                ensure!(notes == NOTES, "{notes} of {NOTES} progress notifications came");
            }
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    Ok(try_join_all(runs).await?.concat())
}

/// A call of a client with a session.
pub(crate) fn call(id: usize, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"a boat of ordinary size asks to pass"}}}}}}"#
    )
}

/// A call, by a client with a session, that asks for progress.
fn call_with_progress(id: usize, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{{"progressToken":{id}}}}}}}"#
    )
}

/// A call of a 2026-07-28 client.
pub(crate) fn modern_call(id: usize, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"a boat of ordinary size asks to pass"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

/// A benchmark answered with errors measures nothing.
pub(crate) fn check(answer: &[u8], id: usize) -> Result<()> {
    let text = std::str::from_utf8(answer)?;
    ensure!(text.contains(ANSWER) && text.contains(&format!("\"id\":{id}")), "a wrong answer: {text}");
    Ok(())
}

// === impl Work ===

impl Work {
    /// The tool that is called.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Small | Self::Tls | Self::Session => "pass",
            Self::Large => "large",
            Self::Notes => "notes",
        }
    }
}

// === impl Batch ===

impl Batch {
    /// The latency not exceeded by this share of the calls, in thousandths; in microseconds.
    pub(crate) fn latency(&self, thousandths: usize) -> f64 {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let at = (latencies.len() * thousandths / 1000).min(latencies.len().saturating_sub(1));
        latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    }

    /// CPU time per call of the programs between client and backend, and of the backend, in microseconds.
    pub(crate) fn cpu_per_call(&self) -> [f64; 2] {
        self.cpu.map(|time| time.as_secs_f64() * 1e6 / self.count())
    }

    pub(crate) fn calls_per_second(&self) -> f64 {
        self.count() / self.took.as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 calls")]
    fn count(&self) -> f64 {
        self.latencies.len() as f64
    }
}
