//! Gateways that start each other: how deep one may be.

/// The variable that gives a child the number of gateways above it.
pub const NESTING: &str = "LOCKKEEPER_NESTING";

/// Maximum number of gateways above one: with more, a configuration probably starts itself.
pub const MAX_NESTING: u32 = 2;

/// The number of gateways above the process with this value of the variable.
pub fn nesting(value: Option<&str>) -> u32 {
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}
