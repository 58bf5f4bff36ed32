//! The servers that listen while a gateway is measured before them, and what its configuration says of them.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    process::{Process, this_program},
    ways::start_role,
};

/// Dropping them ends them.
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

    /// The `lockkeeper.toml` of a gateway before them and before a process of each session.
    pub(crate) fn config(&self) -> Result<String> {
        let at = |name: &str, scheme: &str, server: &Server, path: &str| {
            format!("[backends.{name}]\nurl = \"{scheme}://127.0.0.1:{}{path}\"\n", server.port)
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
            format!("[backends.pipe]\ncommand = {pipe:?}\nargs = [\"stdio\"]\nshare = \"session\"\n"),
        ]
        .concat())
    }
}

// === impl Server ===

impl Server {
    async fn start(folder: &Path, role: &str, options: &[&str]) -> Result<Self> {
        let (process, port) = start_role(folder, &[role], options).await?;
        Ok(Self { process, port })
    }
}
