//! Problems of a deployment for one client.

use serde::Serialize;

/// Effect of a problem on the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The client does not connect.
    Blocks,
    /// Some versions, or some situations, fail.
    MayFail,
}

/// A problem of a deployment for one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Effect on the client.
    pub severity: Severity,
    /// The faulty document or header.
    pub at: String,
    /// The fault.
    pub problem: String,
    /// The change that fixes it.
    pub advice: String,
}

// === impl Finding ===

impl Finding {
    /// A problem that keeps the client from connecting.
    pub(super) fn blocks(at: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Blocks, at: at.into(), problem: problem.into(), advice: advice.into() }
    }

    /// A problem of some versions or situations.
    pub(super) fn may_fail(at: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::MayFail, ..Self::blocks(at, problem, advice) }
    }
}
