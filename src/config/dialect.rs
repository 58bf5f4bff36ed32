//! Dialect of a configuration file.

/// Format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Written for this gateway: an unknown option is an error.
    Own,
    /// Shared with other programs: their own options are ignored.
    Shared,
}
