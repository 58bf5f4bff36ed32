//! The levels of log messages (all versions, logging; RFC 5424 6.2.1).

use tokio::sync::watch;

/// Severity of a log message; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For the server's developers.
    Debug,
    /// Normal operation, such as progress.
    Info,
    /// A normal but significant event, such as a changed configuration.
    Notice,
    /// A possible problem, such as use of a deprecated feature.
    Warning,
    Error,
    /// A part of the server failed.
    Critical,
    /// Immediate action is needed.
    Alert,
    /// The server cannot be used.
    Emergency,
}

/// The lowest level of log messages that a client wants. Cheap to clone.
#[derive(Debug, Clone)]
pub enum LogLevel {
    /// The level of one request; `None` if it wants no log messages (2026-07-28, logging).
    Request(Option<Level>),
    /// The current level of a session; `None` if it has set none.
    Session(watch::Receiver<Option<Level>>),
}

impl Level {
    /// Every level, least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

// === impl LogLevel ===

impl LogLevel {
    /// The current level.
    pub fn get(&self) -> Option<Level> {
        match self {
            Self::Request(level) => *level,
            Self::Session(level) => *level.borrow(),
        }
    }

    /// Waits until the session sets it again; forever for a single request. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if let Self::Session(level) = self
            && level.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl Default for LogLevel {
    /// The level of a request that wants no log messages.
    fn default() -> Self {
        Self::Request(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_by_their_exact_names_and_ordered() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.as_str()), Some(level));
        }
        assert_eq!(Level::parse("WARNING"), None);
        assert!(Level::Error > Level::Notice);
    }
}
