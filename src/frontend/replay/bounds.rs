//! Bounds of what is kept of streams.

/// A number of messages, and of their bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Messages.
    pub(crate) messages: usize,
    /// Bytes of them.
    pub(crate) bytes: usize,
}
