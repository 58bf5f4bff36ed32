//! The section `[stdio]`: rules for clients of `lockkeeper stdio`. Knows nothing of how they are served.

use super::section::Section;

/// Rules for clients on standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StdioConfig {
    /// `require_login` and `upgrade`: the transport over which a client has to log in. `None` serves it without login.
    pub upgrade: Option<UpgradeTransport>,
}

/// A transport with authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpgradeTransport {
    /// HTTP+SSE of 2024-11-05.
    #[default]
    HttpSse,
    /// Streamable HTTP.
    StreamableHttp,
}

impl StdioConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let transports =
            [("http+sse", UpgradeTransport::HttpSse), ("streamable-http", UpgradeTransport::StreamableHttp)];
        let transport = section.choice("upgrade", &transports).unwrap_or_default();
        Self { upgrade: (section.flag("require_login") == Some(true)).then_some(transport) }
    }
}
