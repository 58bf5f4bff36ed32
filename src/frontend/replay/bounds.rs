//! Number and size of messages.

/// A number of messages and of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Number of messages.
    pub(crate) messages: usize,
    /// Number of bytes.
    pub(crate) bytes: usize,
}
