//! A measured process: its CPU time and memory, according to the kernel, and its end.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{net::TcpStream, time::Instant};

use crate::client::{Connection, Endpoint};

/// Maximum time until a part listens.
pub(crate) const START: Duration = Duration::from_secs(20);

/// A child of the bench; killed when dropped.
pub(crate) struct Process {
    child: Child,
}

/// A gateway on a port, with its own folder of files.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// This program, to be started in another role.
pub(crate) fn this_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?)
}

// === impl Process ===

impl Process {
    /// Starts a command whose output goes to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let out = fs::File::options().create(true).append(true).open(log)?;
        let command = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| command.get_program().display().to_string())?;
        Ok(Self { child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the port accepts connections.
    pub(crate) async fn listening(&mut self, port: u16) -> Result<()> {
        let end = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status}");
            }
            if Instant::now() > end {
                bail!("does not listen after {START:?}");
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn end(mut self) -> Result<()> {
        kill(Pid::from_raw(self.id().cast_signed()), Signal::SIGTERM)?;
        let end = Instant::now() + START;
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "ended with {status}");
                return Ok(());
            }
            ensure!(Instant::now() < end, "runs on {START:?} after it was asked to end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // best effort: it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process so far, without its children. Uses the scheduler's own count, in nanoseconds: `stat` counts in
/// ticks of 10 ms, too coarse for a batch.
pub(crate) fn cpu_time(id: u32) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        // a thread may end between being listed and being read
        let counted = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        total += Duration::from_nanos(counted.split(' ').next().unwrap_or_default().parse().unwrap_or_default());
    }
    Ok(total)
}

/// The running child processes of a process.
pub(crate) fn children(id: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{id}/task"))? {
        let listed = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        found.extend(listed.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Ok(found)
}

// === impl Gateway ===

impl Gateway {
    /// Starts the gateway's program in a folder with a `lockkeeper.toml`.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(program);
        command.arg("serve").args(common(folder)).arg("--listen").arg(format!("127.0.0.1:{port}"));
        Ok(Self { process: Process::start(&mut command, &folder.join("gateway.log"))?, port })
    }

    /// Waits until it answers: it begins to listen earlier.
    pub(crate) async fn answering(&mut self) -> Result<()> {
        self.answering_at(&Endpoint::new(self.port, "/healthz", None)?).await
    }

    /// The same with requests to this endpoint.
    pub(crate) async fn answering_at(&mut self, healthz: &Endpoint) -> Result<()> {
        self.process.listening(self.port).await?;
        let response = Connection::to(healthz).await?.send(healthz, Method::GET, Bytes::new()).await?;
        ensure!(response.status() == StatusCode::OK, "/healthz: {}", response.status());
        Ok(())
    }

    /// A new API key, to be sent as a bearer token to `/mcp`.
    pub(crate) fn create_key(program: &Path, folder: &Path) -> Result<String> {
        let mut command = Command::new(program);
        let made = command.args(["keys", "create", "bench", "--direct", "--json"]).args(common(folder)).output()?;
        let printed = String::from_utf8_lossy(&made.stdout).into_owned();
        let key = printed.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|word| word.starts_with("lkk_"));
        key.map(str::to_owned).with_context(|| format!("no key: {}", String::from_utf8_lossy(&made.stderr)))
    }
}

fn common(folder: &Path) -> [std::ffi::OsString; 4] {
    ["--config".into(), folder.join("lockkeeper.toml").into(), "--data-dir".into(), folder.join("data").into()]
}
