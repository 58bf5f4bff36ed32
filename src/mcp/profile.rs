//! Treatment of members that a client's version does not define.

/// Treatment of members that the target version does not define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// They stay, because no schema of the protocol forbids additional members.
    #[default]
    Faithful,
    /// They are removed, for clients that reject unknown members.
    Strict,
}
