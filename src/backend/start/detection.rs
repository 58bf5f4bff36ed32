//! Detection of a server's era while its base connection is opened (`translation` 2.7).
//!
//! On a channel the handshake comes first, in the process that will serve: servers of both eras accept it, and older
//! ones may exit at anything else. If the server answers with an error, `server/discover` follows on the same channel.
//! After silence or an exit, the next start begins with the probe. The gateway never runs two processes for this. Over
//! HTTP the probe, `server/discover`, comes first.

use std::{sync::Arc, time::Duration};

use super::{
    connection_start::ConnectionStart,
    era::{BackendEra, Verdict},
    opener::{Failure, Opener, Refusal, UnsettledConnection},
};
use crate::{
    backend::{
        connection::{
            ServerConnection,
            discover::{DiscoverOutcome, apply_server_info, discover},
        },
        error::StartError,
        sharing::{connection_key::ConnectionKey, pool::Pool},
    },
    mcp::{ClientInfo, Era},
};

/// Opens a connection to a server whose era may be unknown.
pub(crate) struct Detection<'a> {
    pub(crate) opener: &'a Opener,
    pub(crate) era: &'a BackendEra,
    pub(crate) pool: &'a Pool,
    /// The connection to open if the server has sessions.
    pub(crate) legacy: ConnectionStart<'a>,
    /// The key of that connection if the server has none.
    pub(crate) modern: &'a ConnectionKey,
}

// === impl Detection ===

impl Detection<'_> {
    /// Opens the base connection.
    pub(crate) async fn open_base(&self, client: &Arc<ClientInfo>) -> Result<Arc<ServerConnection>, Failure> {
        let mut opened = match self.era.starting_verdict() {
            Some(verdict) if verdict.is_configured() => self.open_configured(verdict, client).await,
            Some(verdict) if verdict.era == Era::Modern => self.confirm_modern(verdict, client).await,
            Some(verdict) => self.confirm_legacy(verdict, client).await,
            None => self.detect(client).await,
        };
        // this loop ends: a server reached over HTTP cannot name another endpoint
        while let Err(Failure { error: StartError::Upgrade(offer), .. }) = &opened {
            opened = match self.opener.follow(offer) {
                Ok(()) => match self.era.starting_verdict().filter(Verdict::is_configured) {
                    Some(verdict) => self.open_configured(verdict, client).await,
                    None => self.detect(client).await,
                },
                Err(refusal) => Err(refusal.into()),
            };
        }
        if opened.is_err() {
            // the server may have been replaced
            self.opener.transport.forget();
        }
        self.opener.count(opened.as_deref().ok());
        opened
    }

    /// Opens a client's connection before the base connection has shown the era, as if the server were of the era
    /// `presumed`. If it answers the handshake on a channel with an error, it is probed there.
    pub(crate) async fn open_early(
        &self,
        presumed: Era,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let connection = if presumed == Era::Legacy && self.opener.transport.is_channel() {
            self.greet(client).await?
        } else {
            self.opener.open(presumed, self.start(presumed), client).await?
        };
        self.era.found(connection.era());
        self.pool.end_all_but(connection.era());
        Ok(connection)
    }

    /// Parameters of the connection, if the server is of the era `era`.
    const fn start(&self, era: Era) -> ConnectionStart<'_> {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => ConnectionStart { key: self.modern, ..self.legacy },
        }
    }

    async fn open_configured(
        &self,
        verdict: Verdict,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        self.opener.open(verdict.era, self.start(verdict.era), client).await
    }

    /// Opens the connection to a server that was modern before. `server/discover` may take the full start timeout; its
    /// answer shows if the era has changed.
    async fn confirm_modern(
        &self,
        verdict: Verdict,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let spare = self.open_probe().await?;
        match self.probe(&spare, self.opener.spec.start_timeout).await? {
            DiscoverOutcome::Modern(info) => {
                apply_server_info(spare.connection(), info);
                self.confirm(verdict);
                Ok(spare.keep())
            }
            told => {
                if self.opener.transport.is_channel() && matches!(told, DiscoverOutcome::Nothing(_)) {
                    // the server may be older by now, and stay silent
                    self.era.doubt(Era::Modern);
                }
                self.settle(spare, told, client).await
            }
        }
    }

    /// Opens the connection to a server that was legacy before. If it rejects the handshake over HTTP, detection runs
    /// at once; on a channel, at the next start. An outage over HTTP proves nothing.
    async fn confirm_legacy(
        &self,
        verdict: Verdict,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let failure = match self.greet(client).await {
            Ok(connection) if connection.era() == verdict.era => {
                self.confirm(verdict);
                return Ok(connection);
            }
            Ok(connection) => return Ok(self.detected(connection)),
            Err(failure) => failure,
        };
        match failure.error {
            _ if self.opener.transport.is_channel() => {
                self.doubt_after(&failure, Era::Legacy);
                Err(failure)
            }
            StartError::OtherEra(_)
            | StartError::Incompatible { .. }
            | StartError::Refused(_)
            | StartError::Malformed(_) => {
                tracing::info!(server = %self.opener.spec.id, reason = %failure.error, "the server's protocol era is detected again");
                self.detect(client).await
            }
            _ => Err(failure),
        }
    }

    /// Records the era as confirmed, and ends connections of the other era.
    fn confirm(&self, verdict: Verdict) {
        self.era.confirm(verdict);
        self.pool.end_all_but(verdict.era);
    }

    /// Records the era of a connection as detected, and ends connections of the other era.
    fn detected(&self, connection: Arc<ServerConnection>) -> Arc<ServerConnection> {
        let era = connection.era();
        self.era.detected(era);
        self.pool.end_all_but(era);
        connection
    }

    async fn detect(&self, client: &Arc<ClientInfo>) -> Result<Arc<ServerConnection>, Failure> {
        if self.opener.transport.is_channel() {
            return self.detect_on_channel(client).await;
        }
        let spare = self.open_probe().await?;
        let told = self.probe(&spare, self.opener.spec.start_timeout).await?;
        self.settle(spare, told, client).await
    }

    /// Makes the handshake. If the last handshake proved nothing, the probe comes first, in a process of its own.
    async fn detect_on_channel(&self, client: &Arc<ClientInfo>) -> Result<Arc<ServerConnection>, Failure> {
        let is_probed_first = self.era.doubted() == Some(Era::Legacy);
        if is_probed_first {
            let spare = self.open_probe().await?;
            match self.probe(&spare, self.opener.spec.probe_timeout).await? {
                DiscoverOutcome::Nothing(StartError::TimedOut(_)) => spare.close().await,
                DiscoverOutcome::Legacy(reason) | DiscoverOutcome::Ended(reason) => {
                    tracing::debug!(server = %self.opener.spec.id, reason, "the handshake is tried again");
                }
                told => return self.settle(spare, told, client).await,
            }
        }
        match self.greet(client).await {
            Ok(connection) => Ok(self.detected(connection)),
            Err(failure) => {
                self.doubt_after(&failure, if is_probed_first { Era::Modern } else { Era::Legacy });
                Err(failure)
            }
        }
    }

    /// Lets the next start on a channel begin as for the other era, if the failure may come from a wrong assumption.
    fn doubt_after(&self, failure: &Failure, assumed: Era) {
        if !failure.error.is_lasting() && !matches!(failure.error, StartError::Stopping | StartError::Upgrade(_)) {
            self.era.doubt(assumed);
        }
    }

    /// Makes the handshake. A server that answers with an error, or wrongly, is probed: on the same channel; over HTTP
    /// only if the error says that the server is modern.
    async fn greet(&self, client: &Arc<ClientInfo>) -> Result<Arc<ServerConnection>, Failure> {
        let Refusal { failure, answered } = match self.opener.greet(self.legacy, client).await {
            Ok(session) => return Ok(session),
            Err(refusal) => refusal,
        };
        let (spare, patience) = match answered {
            Some(answered) if self.opener.transport.is_channel() => {
                let modern = self.start(Era::Modern);
                (self.opener.hand_over(answered, modern).await, self.opener.spec.probe_timeout)
            }
            Some(_) if matches!(failure.error, StartError::OtherEra(_)) => {
                (Some(self.open_probe().await?), self.opener.spec.start_timeout)
            }
            _ => return Err(failure),
        };
        if let Some(spare) = spare
            && let DiscoverOutcome::Modern(info) = self.probe(&spare, patience).await?
        {
            apply_server_info(spare.connection(), info);
            return Ok(spare.keep());
        }
        match failure {
            // perhaps the server is being replaced
            Failure { error: StartError::OtherEra(contrary), output } => {
                Err(Failure { error: StartError::Refused(contrary), output })
            }
            failure => Err(failure),
        }
    }

    /// Opens a connection for the probe, without sending anything.
    async fn open_probe(&self) -> Result<UnsettledConnection, Failure> {
        self.opener.open_transport(self.start(Era::Modern)).await
    }

    /// Sends `server/discover`, and waits for at most `patience`.
    async fn probe(&self, spare: &UnsettledConnection, patience: Duration) -> Result<DiscoverOutcome, Failure> {
        tokio::select! {
            told = discover(spare.connection(), patience) => Ok(told),
            () = self.opener.context.tasks.end().cancelled() => Err(StartError::Stopping.into()),
        }
    }

    /// Acts on the answer to a probe that came first.
    async fn settle(
        &self,
        spare: UnsettledConnection,
        told: DiscoverOutcome,
        client: &Arc<ClientInfo>,
    ) -> Result<Arc<ServerConnection>, Failure> {
        match told {
            DiscoverOutcome::Modern(info) => {
                apply_server_info(spare.connection(), info);
                Ok(self.detected(spare.keep()))
            }
            DiscoverOutcome::Legacy(reason) | DiscoverOutcome::Ended(reason) => {
                tracing::debug!(server = %self.opener.spec.id, reason, "the server counts as one with a handshake");
                drop(spare);
                Ok(self.detected(self.greet(client).await?))
            }
            DiscoverOutcome::Unusable(error) | DiscoverOutcome::Nothing(error) => {
                Err(Failure { error, output: spare.connection().output() })
            }
        }
    }
}
