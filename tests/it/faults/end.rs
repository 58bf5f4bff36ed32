//! End of a call, as a row of the table expects it.

/// End of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The server's text.
    Answered(&'static str),
    /// `-32603` with this in its message.
    Failed(&'static str),
    /// Given up after the configured silence.
    Silent,
}

use End::{Answered, Failed, Silent};

impl End {
    /// Compares the end of `what` with this one.
    ///
    /// # Errors
    ///
    /// The difference.
    pub(super) fn check(self, what: &str, ended: &Result<String, String>) -> Result<(), String> {
        let is_so = match (self, ended) {
            (Answered(text), Ok(answered)) => answered == text,
            (Failed(text), Err(error)) => error.starts_with("-32603 ") && error.contains(text),
            (Silent, Err(error)) => {
                error == "-32603 Server `sick` gave no sign of life for 50 s, so the call was cancelled"
            }
            _ => false,
        };
        if is_so { Ok(()) } else { Err(format!("{what}: {ended:?}, not {self:?}")) }
    }
}
