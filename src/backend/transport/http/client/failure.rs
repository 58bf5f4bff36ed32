//! Errors of requests without an answer.

use std::error::Error;

use crate::{
    backend::transport::interface::TransportError,
    fetch::cause::{cause, is_as_of_tls, tls_advice},
};

/// The error of a request that was not sent at all.
pub(super) fn unreachable(error: &(dyn Error + 'static)) -> TransportError {
    TransportError::Unreachable(match tls_advice(error) {
        Some(advice) => format!("the server cannot be reached: {advice}"),
        None => format!("the server cannot be reached ({}): is it running, is its URL right?", cause(error)),
    })
}

/// The error of a request that the server may have processed.
pub(super) fn lost(error: &(dyn Error + 'static)) -> TransportError {
    TransportError::Lost(cause(error))
}

/// The error of the first request on a plain connection, which the server may have closed because it expects TLS.
pub(super) fn lost_at_first(error: &(dyn Error + 'static)) -> TransportError {
    if is_as_of_tls(error) {
        return TransportError::Lost(format!("{}, as at a server whose URL begins with `https`", cause(error)));
    }
    lost(error)
}
