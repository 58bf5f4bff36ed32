//! The transport of one opening: Streamable HTTP first, HTTP+SSE if the server refuses the handshake over it
//! (2025-03-26 and later, transports, *Backwards Compatibility*).

use super::server_transport::ServerTransport;
use crate::{backend::error::StartError, model::TransportSpec};

/// Transport of one opening.
pub(crate) struct TransportChoice {
    /// Transport to try now.
    pub(crate) current: TransportSpec,
    /// Why Streamable HTTP was refused, once HTTP+SSE is tried.
    refusal: Option<String>,
}

// === impl TransportChoice ===

impl TransportChoice {
    /// Starts with the transport that worked last, or the configured one.
    pub(crate) fn of(known: &ServerTransport) -> Self {
        Self { current: known.current(), refusal: None }
    }

    /// Switches to HTTP+SSE after a refusal over Streamable HTTP.
    ///
    /// # Errors
    ///
    /// The refusal, if there is nothing else to try.
    pub(crate) fn next(&mut self, refusal: String) -> Result<(), StartError> {
        let TransportSpec::Http(http) = &self.current else { return Err(StartError::Refused(refusal)) };
        self.current = TransportSpec::Sse(http.clone());
        self.refusal = Some(refusal);
        Ok(())
    }

    /// Remembers the transport that worked, so that later connections use it.
    pub(crate) fn worked(self, known: &ServerTransport) {
        if self.refusal.is_some() {
            known.found(self.current);
        }
    }

    /// The error of the opening, with the refusals of both transports.
    pub(crate) fn failed(self, error: StartError) -> StartError {
        match self.refusal {
            Some(refusal) => StartError::Refused(format!("{refusal}; over HTTP+SSE: {error}")),
            None => error,
        }
    }
}
