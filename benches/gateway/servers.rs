//! This program in listening roles: the servers behind a measured gateway, with its configuration, and floors.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::process::{Process, free_port, this_program};

/// The servers; dropping this ends them.
pub(crate) struct Servers {
    pub(crate) legacy: Server,
    pub(crate) modern: Server,
    pub(crate) secure: Server,
    pub(crate) channels: Server,
    pub(crate) lines: Server,
    certificate: PathBuf,
}

/// This program in a role that listens on loopback.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

// === impl Servers ===

impl Servers {
    /// Starts them, with files in this folder.
    pub(crate) async fn start(folder: &Path) -> Result<Self> {
        let certificate = folder.join("certificate.pem");
        Ok(Self {
            legacy: Server::start(folder, "http", &["legacy"]).await?,
            modern: Server::start(folder, "http", &["modern"]).await?,
            secure: Server::start(folder, "https", &[&certificate.display().to_string()]).await?,
            channels: Server::start(folder, "channels", &[]).await?,
            lines: Server::start(folder, "lines", &[]).await?,
            certificate,
        })
    }

    /// The `lockkeeper.toml` of a gateway for them, with a process for each session.
    pub(crate) fn config(&self) -> Result<String> {
        let at = |name: &str, scheme: &str, server: &Server, path: &str| {
            format!("[servers.{name}]\nurl = \"{scheme}://127.0.0.1:{}{path}\"\n", server.port)
        };
        let pipe = this_program()?.display().to_string();
        Ok([
            at("fast", "http", &self.legacy, "/mcp"),
            at("modern", "http", &self.modern, "/mcp"),
            at("secure", "https", &self.secure, "/mcp"),
            format!("ca_file = {:?}\n", self.certificate.display().to_string()),
            at("events", "http", &self.channels, "/sse"),
            at("socket", "ws", &self.channels, "/ws"),
            at("lines", "tcp", &self.lines, ""),
            format!("[servers.pipe]\ncommand = {pipe:?}\nargs = [\"stdio\"]\nshare = \"session\"\n"),
        ]
        .concat())
    }
}

// === impl Server ===

impl Server {
    /// Starts this program in a role, with a free port and these options, and waits until it listens.
    pub(crate) async fn start(folder: &Path, role: &str, options: &[&str]) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(this_program()?);
        command.arg(role).arg(port.to_string()).args(options);
        let log = folder.join(format!("{role}-{port}.log"));
        let mut process = Process::start(&mut command, &log)?;
        process.listening(port).await.with_context(|| fs::read_to_string(log).unwrap_or_default())?;
        Ok(Self { process, port })
    }
}
