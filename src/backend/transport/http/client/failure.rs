//! Why a request got no answer.

use std::error::Error;

use crate::backend::transport::interface::TransportError;

/// The error of a request of which nothing was sent.
pub(super) fn unreachable(error: &(dyn Error + 'static)) -> TransportError {
    let reason = cause(error);
    TransportError::Unreachable(format!("the server cannot be reached ({reason}): is it running, is its URL right?"))
}

/// The error of a request that the server may have processed.
pub(super) fn lost(error: &(dyn Error + 'static)) -> TransportError {
    TransportError::Lost(cause(error))
}

/// The innermost cause.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    innermost(error).to_string()
}

/// The innermost cause, as an error.
pub(super) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}
