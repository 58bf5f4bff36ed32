//! What the gateway needs while nothing happens: memory per session with an open stream, and the time to start.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    client::{Connection, Endpoint},
    process::{Gateway, Process, free_port, this_program},
};

/// Starts that are timed; the median counts.
const STARTS: usize = 9;
/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_secs(1);

/// Memory of the gateway with and without idle sessions.
#[derive(Serialize)]
pub(crate) struct Idle {
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

/// Opens sessions, each with its stream, and weighs the gateway before and after.
pub(crate) async fn memory_per_session(program: &Path, sessions: usize) -> Result<Idle> {
    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let mut command = Command::new(this_program()?);
    let mut backend = Process::start(command.args(["http", &port.to_string()]), &folder.path().join("backend.log"))?;
    backend.listening(port).await?;
    let most = sessions + 100;
    let config = format!(
        "[limits]\nsessions = {most}\nsessions_per_caller = {most}\n\n[backends.fast]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
    );
    fs::write(folder.path().join("lockkeeper.toml"), config)?;
    let mut gateway = Gateway::start(program, folder.path())?;
    gateway.answering().await?;
    let key = Gateway::create_key(program, folder.path())?;
    // The first sessions bring in what is allocated once.
    let mut held = open(gateway.port, &key, 50).await?;
    tokio::time::sleep(SETTLE).await;
    let empty_bytes = gateway.process.memory()?;
    held.extend(open(gateway.port, &key, sessions).await?);
    tokio::time::sleep(SETTLE).await;
    let full_bytes = gateway.process.memory()?;
    drop(held);
    let each = full_bytes.saturating_sub(empty_bytes) / u64::try_from(sessions.max(1))?;
    Ok(Idle { sessions, empty_bytes, full_bytes, bytes_per_session: each })
}

/// Sessions with an open stream; they end when what is returned is dropped.
async fn open(port: u16, key: &str, sessions: usize) -> Result<Vec<impl Sized + use<>>> {
    let mut held = Vec::new();
    for n in 0..sessions {
        let mut endpoint = Endpoint::new(port, "/mcp", Some(key))?;
        let mut connection = endpoint.open_session().await.with_context(|| format!("session {n}"))?;
        let stream = connection.send(&endpoint, Method::GET, Bytes::new()).await?;
        ensure!(stream.status() == StatusCode::OK, "stream {n}: {}", stream.status());
        held.push((connection, stream));
    }
    Ok(held)
}
