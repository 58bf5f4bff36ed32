//! The cost of an idle gateway: memory per session with an open stream, and the time to start.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    client::{Connection, Endpoint},
    process::{Gateway, Process},
    servers::Server,
    ways::FLOOR_WAY,
};

/// Number of timed starts; the median counts.
const STARTS: usize = 9;
/// Number of streams opened before the first measurement.
const WARM: usize = 50;
/// Time for memory to settle.
const SETTLE: Duration = Duration::from_secs(1);

/// Memory of the gateway or the floor with and without idle streams.
#[derive(Serialize)]
pub(crate) struct Idle {
    pub(crate) way: &'static str,
    pub(crate) sessions: usize,
    pub(crate) empty_bytes: u64,
    pub(crate) full_bytes: u64,
    pub(crate) bytes_per_session: u64,
}

/// Milliseconds from starting the process to its first HTTP answer.
#[derive(Serialize)]
pub(crate) struct Start {
    pub(crate) first_ever: f64,
    pub(crate) median: f64,
    pub(crate) fastest: f64,
}

/// Times starts over an empty folder (the first) and over its database (the others).
pub(crate) async fn start_to_first_answer(program: &Path) -> Result<Start> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("lockkeeper.toml"), "")?;
    let mut times = Vec::new();
    for _ in 0..=STARTS {
        let started = Instant::now();
        let mut gateway = Gateway::start(program, folder.path())?;
        gateway.process.listening(gateway.port).await?;
        let mut connection = Connection::open(gateway.port).await?;
        let response =
            connection.send(&Endpoint::new(gateway.port, "/healthz", None)?, Method::GET, Bytes::new()).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        ensure!(response.status() == StatusCode::OK, "/healthz: {}", response.status());
    }
    let first_ever = times.remove(0);
    times.sort_by(f64::total_cmp);
    Ok(Start { first_ever, median: times[times.len() / 2], fastest: times[0] })
}

/// Opens sessions, each with its stream, and measures the gateway before and after.
pub(crate) async fn memory_per_session(program: &Path, sessions: usize) -> Result<Idle> {
    let folder = tempfile::tempdir()?;
    let backend = Server::start(folder.path(), "http", &["legacy"]).await?;
    let most = sessions + 100;
    let config = format!(
        "[limits]\nsessions = {most}\nsessions_per_caller = {most}\n\n[servers.fast]\nurl = \"http://127.0.0.1:{}/mcp\"\n",
        backend.port
    );
    fs::write(folder.path().join("lockkeeper.toml"), config)?;
    let mut gateway = Gateway::start(program, folder.path())?;
    gateway.answering().await?;
    let key = Gateway::create_key(program, folder.path())?;
    let endpoint = Endpoint::new(gateway.port, "/mcp", Some(&key))?;
    weigh("gateway", &gateway.process, sessions, async || {
        let mut connection = Connection::open(endpoint.port).await?;
        let endpoint = endpoint.with_session(&mut connection).await?;
        open(connection, &endpoint).await
    })
    .await
}

/// Opens as many streams through the floor, and measures it before and after.
pub(crate) async fn memory_per_stream(streams: usize) -> Result<Idle> {
    let folder = tempfile::tempdir()?;
    let backend = Server::start(folder.path(), "http", &["legacy"]).await?;
    let floor = Server::start(folder.path(), "floor", &[&backend.port.to_string()]).await?;
    let endpoint = Endpoint::new(floor.port, "/stream", None)?;
    let open = async || open(Connection::open(endpoint.port).await?, &endpoint).await;
    weigh(FLOOR_WAY, &floor.process, streams, open).await
}

/// Measures a process before and after opening `sessions` streams; they end afterwards.
async fn weigh<T>(
    way: &'static str,
    process: &Process,
    sessions: usize,
    open: impl AsyncFn() -> Result<T>,
) -> Result<Idle> {
    let mut held = Vec::new();
    // The first streams cause one-time allocations.
    for n in 0..WARM {
        held.push(open().await.with_context(|| format!("stream {n}"))?);
    }
    tokio::time::sleep(SETTLE).await;
    let empty_bytes = process.memory()?;
    for n in 0..sessions {
        held.push(open().await.with_context(|| format!("stream {}", n + WARM))?);
    }
    tokio::time::sleep(SETTLE).await;
    let full_bytes = process.memory()?;
    let each = full_bytes.saturating_sub(empty_bytes) / u64::try_from(sessions.max(1))?;
    Ok(Idle { way, sessions, empty_bytes, full_bytes, bytes_per_session: each })
}

/// An open stream on its own connection.
async fn open(mut connection: Connection, endpoint: &Endpoint) -> Result<(Connection, Response<Incoming>)> {
    let stream = connection.send(endpoint, Method::GET, Bytes::new()).await?;
    ensure!(stream.status() == StatusCode::OK, "{}", stream.status());
    Ok((connection, stream))
}
