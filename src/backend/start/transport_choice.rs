//! The transport of one opening: Streamable HTTP first, HTTP+SSE if the server refuses the handshake over it (2025-03-26 and
//! later, transports, *Backwards Compatibility*). Knows nothing of messages.

use super::server_transport::ServerTransport;
use crate::{backend::error::StartError, model::TransportSpec};

/// The transport of one opening.
pub(crate) struct TransportChoice {
    /// The transport to connect over.
    pub(crate) current: TransportSpec,
    /// The refusal of the transport before it.
    refusal: Option<String>,
}

// === impl TransportChoice ===

impl TransportChoice {
    /// The transport that is known best.
    pub(crate) fn of(known: &ServerTransport) -> Self {
        Self { current: known.current(), refusal: None }
    }

    /// Chooses HTTP+SSE after a refusal over Streamable HTTP.
    ///
    /// # Errors
    ///
    /// The error of the handshake if there is nothing else to try.
    pub(crate) fn next(&mut self, refusal: String) -> Result<(), StartError> {
        let TransportSpec::Http(http) = &self.current else { return Err(StartError::Refused(refusal)) };
        self.current = TransportSpec::Sse(http.clone());
        self.refusal = Some(refusal);
        Ok(())
    }

    /// Keeps what worked.
    pub(crate) fn worked(self, known: &ServerTransport) {
        if self.refusal.is_some() {
            known.found(self.current);
        }
    }

    /// The error of the opening, with those of both transports.
    pub(crate) fn failed(self, error: StartError) -> StartError {
        match self.refusal {
            Some(refusal) => StartError::Refused(format!("{refusal}; over HTTP+SSE: {error}")),
            None => error,
        }
    }
}
