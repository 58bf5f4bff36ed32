//! The section `[stdio]`: rules for clients of `lockkeeper stdio`.

use super::{keys, section::Section};
use crate::model::config_key::config_keys;

config_keys! {
    /// Rules for clients on standard input and output.
    pub struct StdioConfig, taken at restart {
        /// Serves nothing on standard input: every answer names the endpoint below `public_url` where the client can
        /// log in (`upgrade`).
        require_login: bool = flag(false => false, true => true);
        /// The transport named in the answers: `/sse` or `/mcp`.
        upgrade: UpgradeTransport = choice(
            "http+sse" => UpgradeTransport::HttpSse,
            "streamable-http" => UpgradeTransport::StreamableHttp,
        );
    }
}

/// A transport with authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeTransport {
    /// HTTP+SSE of 2024-11-05, at `/sse`.
    HttpSse,
    /// Streamable HTTP, at `/mcp`.
    StreamableHttp,
}

impl StdioConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        keys::read(section, Self::KEYS, Self::default()).0
    }

    /// The transport over which a client has to log in; `None` serves it without login.
    pub fn required_login(&self) -> Option<UpgradeTransport> {
        self.require_login.then_some(self.upgrade)
    }
}
