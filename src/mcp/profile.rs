//! Treatment of members that a client's version does not define.

/// The treatment of members that the target version does not define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// They pass: no schema of the protocol closes an object.
    #[default]
    Faithful,
    /// They are removed, for clients that refuse unknown members.
    Strict,
}
