//! Detection of a server's era while its base connection is opened (`translation` 2.7).
//!
//! Older servers may exit or fall silent on any message before their handshake. So the probe goes to a spare process,
//! and the handshake to another. If the probe stays unanswered, the process may only be slow: the handshake is tried
//! beside it, and the first answer decides. A later answer to the probe is still taken into account.

use std::{pin::pin, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::sleep;

use super::{
    connection::{
        ServerConnection, ServerInfo,
        discover::{DiscoverOutcome, apply_server_info, discover},
    },
    connection_key::ConnectionKey,
    era::{BackendEra, Verdict},
    error::StartError,
    opener::{Failure, Opener, Succession},
    pool::Pool,
};
use crate::mcp::{ClientInfo, Era};

/// An open base connection.
pub(crate) struct Opened {
    pub(crate) connection: Arc<ServerConnection>,
    /// Completes with the server's era if that turns out to be another one.
    pub(crate) doubt: BoxFuture<'static, Era>,
}

/// A connection for the probe. Dropping it ends it, unless it is kept.
struct ProbeConnection {
    connection: Arc<ServerConnection>,
    is_kept: bool,
}

/// Opener of one backend's base connection.
pub(super) struct Detection<'a> {
    pub(super) opener: &'a Opener,
    pub(super) era: &'a BackendEra,
    pub(super) pool: &'a Pool,
}

// === impl Detection ===

impl Detection<'_> {
    /// Opens the base connection.
    pub(super) async fn open_base(&self) -> Result<Opened, Failure> {
        let client = Arc::new(ClientInfo::gateway());
        let mut opened = match self.era.starting_verdict() {
            Some(verdict) if verdict.is_configured() => self.open_configured(verdict, &client).await,
            Some(verdict) if verdict.era == Era::Modern => self.confirm_modern(verdict, &client).await,
            Some(verdict) => self.confirm_legacy(verdict, &client).await,
            None => self.detect(&client).await,
        };
        // ends, since an endpoint over HTTP is not followed elsewhere
        while let Err(Failure { error: StartError::Upgrade(offer), .. }) = &opened {
            opened = match self.opener.follow(offer) {
                Ok(()) => match self.era.starting_verdict().filter(Verdict::is_configured) {
                    Some(verdict) => self.open_configured(verdict, &client).await,
                    None => self.detect(&client).await,
                },
                Err(refusal) => Err(refusal.into()),
            };
        }
        if opened.is_err() {
            // the server may have been replaced
            self.opener.transport.forget();
        }
        self.opener.count(opened.as_ref().ok().map(|opened| &*opened.connection));
        opened
    }

    async fn open_configured(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let key = (&ConnectionKey::base(), self.succession());
        self.opener.open(Some(verdict.era), key, client).await.map(Opened::sure)
    }

    /// Stores a detected era, and ends connections of the other era.
    pub(super) fn detected(&self, era: Era) {
        self.era.detected(era);
        self.pool.serve(era);
    }

    /// Opens the connection to a server that was modern before. `server/discover` is sent with the full timeout; its
    /// answer shows if the era has changed.
    async fn confirm_modern(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.open_probe()?;
        match self.probe(&spare).await? {
            DiscoverOutcome::Modern(info) => {
                apply_server_info(&spare.connection, info);
                self.confirm(verdict);
                Ok(Opened::sure(spare.keep()))
            }
            told => {
                if self.opener.transport.is_channel() && matches!(told, DiscoverOutcome::Nothing(_)) {
                    // a process of an older server may stay silent
                    self.era.doubt();
                }
                self.settle(spare, told, client).await
            }
        }
    }

    /// Opens the connection to a server that was legacy before. If it rejects the handshake, detection runs at once; if
    /// a process exits or stays silent, at the next start. An outage over HTTP proves nothing.
    async fn confirm_legacy(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let failure = match self.opener.open_session(&ConnectionKey::base(), client).await {
            Ok(session) => {
                self.confirm(verdict);
                return Ok(Opened::sure(session));
            }
            Err(failure) => failure,
        };
        match failure.error {
            StartError::OtherEra(_)
            | StartError::Incompatible { .. }
            | StartError::Refused(_)
            | StartError::Malformed(_) => {
                tracing::info!(backend = %self.opener.spec.id, reason = %failure.error, "the server's protocol era is detected again");
                self.detect(client).await
            }
            StartError::Unreachable(_) | StartError::TimedOut(_) if self.opener.transport.is_channel() => {
                self.era.doubt();
                Err(failure)
            }
            _ => Err(failure),
        }
    }

    /// Confirms the era, and ends connections of the other era.
    fn confirm(&self, verdict: Verdict) {
        self.era.confirm(verdict);
        self.pool.serve(verdict.era);
    }

    async fn detect(&self, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.open_probe()?;
        let mut asking = {
            let (connection, patience) = (Arc::clone(&spare.connection), self.opener.spec.start_timeout);
            async move { discover(&connection, patience).await }.boxed()
        };
        let told = tokio::select! {
            told = &mut asking => told,
            () = self.opener.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            () = sleep(self.opener.spec.probe_timeout), if self.opener.transport.is_channel() => return self.detect_between(spare, asking, client).await,
        };
        self.settle(spare, told, client).await
    }

    fn succession(&self) -> Succession {
        if self.pool.base().has_lived() { Succession::Another } else { Succession::First }
    }

    /// Opens a connection for the probe.
    fn open_probe(&self) -> Result<ProbeConnection, Failure> {
        Ok(ProbeConnection {
            connection: self.opener.open_transport(&ConnectionKey::base(), self.succession())?,
            is_kept: false,
        })
    }

    /// Sends the probe.
    async fn probe(&self, spare: &ProbeConnection) -> Result<DiscoverOutcome, Failure> {
        tokio::select! {
            told = discover(&spare.connection, self.opener.spec.start_timeout) => Ok(told),
            () = self.opener.context.tasks.end().cancelled() => Err(StartError::Stopping.into()),
        }
    }

    /// Acts on the result of the probe.
    async fn settle(
        &self,
        spare: ProbeConnection,
        told: DiscoverOutcome,
        client: &Arc<ClientInfo>,
    ) -> Result<Opened, Failure> {
        match told {
            DiscoverOutcome::Modern(info) => Ok(self.is_modern(spare, info)),
            DiscoverOutcome::Legacy(reason) | DiscoverOutcome::Ended(reason) => {
                tracing::debug!(backend = %self.opener.spec.id, reason, "the server counts as one with a handshake");
                drop(spare);
                match self.opener.open_session(&ConnectionKey::base(), client).await {
                    Ok(session) => Ok(self.is_legacy(session)),
                    Err(Failure { error: StartError::OtherEra(contrary), stderr_tail }) => {
                        let spare = self.open_probe()?;
                        match self.probe(&spare).await? {
                            DiscoverOutcome::Modern(info) => Ok(self.is_modern(spare, info)),
                            // perhaps the server is being replaced at this moment
                            _ => Err(Failure { error: StartError::Refused(contrary), stderr_tail }),
                        }
                    }
                    Err(failure) => Err(failure),
                }
            }
            DiscoverOutcome::Unusable(error) | DiscoverOutcome::Nothing(error) => {
                Err(Failure { error, stderr_tail: spare.connection.stderr_tail() })
            }
        }
    }

    fn is_modern(&self, spare: ProbeConnection, info: ServerInfo) -> Opened {
        apply_server_info(&spare.connection, info);
        self.detected(Era::Modern);
        Opened::sure(spare.keep())
    }

    fn is_legacy(&self, session: Arc<ServerConnection>) -> Opened {
        self.detected(Era::Legacy);
        Opened::sure(session)
    }

    /// Keeps waiting for the silent process, and tries the handshake with another one.
    async fn detect_between(
        &self,
        spare: ProbeConnection,
        mut asking: BoxFuture<'static, DiscoverOutcome>,
        client: &Arc<ClientInfo>,
    ) -> Result<Opened, Failure> {
        let base = ConnectionKey::base();
        let mut greeting = pin!(self.opener.open_session(&base, client));
        tokio::select! {
            biased;
            told = &mut asking => {
                if let DiscoverOutcome::Modern(info) = told {
                    return Ok(self.is_modern(spare, info));
                }
                drop(spare);
                Ok(self.is_legacy(greeting.await?))
            }
            greeted = &mut greeting => match greeted {
                Ok(session) => {
                    // a late answer still counts; the task ends with the session
                    let doubt = async move {
                        let told = asking.await;
                        drop(spare);
                        if matches!(told, DiscoverOutcome::Modern(_)) { Era::Modern } else { std::future::pending().await }
                    };
                    Ok(Opened { doubt: doubt.boxed(), ..self.is_legacy(session) })
                }
                Err(failure) => match asking.await {
                    DiscoverOutcome::Modern(info) => Ok(self.is_modern(spare, info)),
                    _ => Err(failure),
                },
            },
        }
    }
}

impl Opened {
    fn sure(connection: Arc<ServerConnection>) -> Self {
        Self { connection, doubt: std::future::pending().boxed() }
    }
}

// === impl Spare ===

impl ProbeConnection {
    fn keep(mut self) -> Arc<ServerConnection> {
        self.is_kept = true;
        Arc::clone(&self.connection)
    }
}

impl Drop for ProbeConnection {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.end("it was made to ask of which era the server is");
        }
    }
}
