//! Opening the base connection of a backend: of which era the server is, is found out on the way where it is not known
//! (`translation` 2.7).
//!
//! The question goes to a process that can be spared, since older servers end, or fall silent, on anything before their
//! handshake; the handshake is made with another. A process that has not answered for a while may be a slow one: then both
//! are tried, and the one that answers first is believed. What still comes from the other is heeded.

use std::{pin::pin, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::sleep;

use super::{
    connection::{
        ServerConnection, ServerInfo,
        discover::{Told, discover, introduced},
    },
    connection_key::ConnectionKey,
    era::{BackendEra, Verdict},
    error::StartError,
    open::{Failure, Opener, Succession},
    pool::Pool,
};
use crate::mcp::{ClientInfo, Era};

/// The base connection.
pub(crate) struct Opened {
    pub(crate) connection: Arc<ServerConnection>,
    /// Comes to an end where the server turns out to be of this other era.
    pub(crate) doubt: BoxFuture<'static, Era>,
}

/// A connection that was made to ask. Dropping it ends it, unless it was kept.
struct Spare {
    connection: Arc<ServerConnection>,
    is_kept: bool,
}

/// Opens the base connection of one backend.
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
        let opened = match self.era.again() {
            None => self.find_out(&client).await,
            Some(verdict) if verdict.is_configured() => self
                .opener
                .open(Some(verdict.era), (&ConnectionKey::base(), self.succession()), &client)
                .await
                .map(Opened::sure),
            Some(verdict) if verdict.era == Era::Modern => self.confirm_modern(verdict, &client).await,
            Some(verdict) => self.confirm_legacy(verdict, &client).await,
        };
        self.opener.count(opened.as_ref().ok().map(|opened| &*opened.connection));
        opened
    }

    /// Notes of which era the server was found to be, and ends what is left of another.
    pub(super) fn found(&self, era: Era) {
        self.era.found(era);
        self.pool.serve(era);
    }

    /// Opens it as one that was found to be modern. It is asked who it is, and so the answer tells if it is not; but it may
    /// take its time.
    async fn confirm_modern(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.spare()?;
        match self.told(&spare).await? {
            Told::Modern(info) => {
                introduced(&spare.connection, info);
                self.holds(verdict);
                Ok(Opened::sure(spare.keep()))
            }
            told => {
                if self.opener.spec.is_channel() && matches!(told, Told::Nothing(_)) {
                    // a process of an older server may be silent for ever
                    self.era.doubt();
                }
                self.settle(spare, told, client).await
            }
        }
    }

    /// Opens it as one that was found to be legacy. Where the server turns the handshake down it is found out anew at once,
    /// and where a process is silent or ends, the next time. Over HTTP an outage says nothing.
    async fn confirm_legacy(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let failure = match self.opener.greet(&ConnectionKey::base(), client).await {
            Ok(session) => {
                self.holds(verdict);
                return Ok(Opened::sure(session));
            }
            Err(failure) => failure,
        };
        match failure.error {
            StartError::OtherEra(_)
            | StartError::Incompatible { .. }
            | StartError::Refused(_)
            | StartError::Malformed(_) => {
                tracing::info!(backend = %self.opener.spec.id, reason = %failure.error, "it is found out anew of which era the server is");
                self.find_out(client).await
            }
            StartError::Unreachable(_) | StartError::TimedOut(_) if self.opener.spec.is_channel() => {
                self.era.doubt();
                Err(failure)
            }
            _ => Err(failure),
        }
    }

    /// Notes that the server is what it was, and ends what is left of another era.
    fn holds(&self, verdict: Verdict) {
        self.era.holds(verdict);
        self.pool.serve(verdict.era);
    }

    async fn find_out(&self, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.spare()?;
        let mut asking = {
            let (connection, patience) = (Arc::clone(&spare.connection), self.opener.spec.start_timeout);
            async move { discover(&connection, patience).await }.boxed()
        };
        let told = tokio::select! {
            told = &mut asking => told,
            () = self.opener.context.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            () = sleep(self.opener.spec.probe_timeout), if self.opener.spec.is_channel() => return self.find_out_between(spare, asking, client).await,
        };
        self.settle(spare, told, client).await
    }

    fn succession(&self) -> Succession {
        if self.pool.base().has_lived() { Succession::Another } else { Succession::First }
    }

    /// A connection on which it is only asked, unless it is kept.
    fn spare(&self) -> Result<Spare, Failure> {
        Ok(Spare { connection: self.opener.approach(&ConnectionKey::base(), self.succession())?, is_kept: false })
    }

    /// What the server tells on it.
    async fn told(&self, spare: &Spare) -> Result<Told, Failure> {
        tokio::select! {
            told = discover(&spare.connection, self.opener.spec.start_timeout) => Ok(told),
            () = self.opener.context.tasks.end().cancelled() => Err(StartError::Stopping.into()),
        }
    }

    /// Acts on what the server told.
    async fn settle(&self, spare: Spare, told: Told, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        match told {
            Told::Modern(info) => Ok(self.is_modern(spare, info)),
            Told::Legacy(reason) | Told::Ended(reason) => {
                tracing::debug!(backend = %self.opener.spec.id, reason, "the server is taken for one with a handshake");
                drop(spare);
                match self.opener.greet(&ConnectionKey::base(), client).await {
                    Ok(session) => Ok(self.is_legacy(session)),
                    Err(Failure { error: StartError::OtherEra(contrary), stderr_tail }) => {
                        let spare = self.spare()?;
                        match self.told(&spare).await? {
                            Told::Modern(info) => Ok(self.is_modern(spare, info)),
                            // perhaps it is being replaced in this moment
                            _ => Err(Failure { error: StartError::Refused(contrary), stderr_tail }),
                        }
                    }
                    Err(failure) => Err(failure),
                }
            }
            Told::Unusable(error) | Told::Nothing(error) => {
                Err(Failure { error, stderr_tail: spare.connection.stderr_tail() })
            }
        }
    }

    fn is_modern(&self, spare: Spare, info: ServerInfo) -> Opened {
        introduced(&spare.connection, info);
        self.found(Era::Modern);
        Opened::sure(spare.keep())
    }

    fn is_legacy(&self, session: Arc<ServerConnection>) -> Opened {
        self.found(Era::Legacy);
        Opened::sure(session)
    }

    /// Goes on waiting for the process that is silent, and tries the handshake with another meanwhile.
    async fn find_out_between(
        &self,
        spare: Spare,
        mut asking: BoxFuture<'static, Told>,
        client: &Arc<ClientInfo>,
    ) -> Result<Opened, Failure> {
        let base = ConnectionKey::base();
        let mut greeting = pin!(self.opener.greet(&base, client));
        tokio::select! {
            biased;
            told = &mut asking => {
                if let Told::Modern(info) = told {
                    return Ok(self.is_modern(spare, info));
                }
                drop(spare);
                Ok(self.is_legacy(greeting.await?))
            }
            greeted = &mut greeting => match greeted {
                Ok(session) => {
                    // who answers late has answered; what holds the process is over with the session
                    let doubt = async move {
                        let told = asking.await;
                        drop(spare);
                        if matches!(told, Told::Modern(_)) { Era::Modern } else { std::future::pending().await }
                    };
                    Ok(Opened { doubt: doubt.boxed(), ..self.is_legacy(session) })
                }
                Err(failure) => match asking.await {
                    Told::Modern(info) => Ok(self.is_modern(spare, info)),
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

impl Spare {
    fn keep(mut self) -> Arc<ServerConnection> {
        self.is_kept = true;
        Arc::clone(&self.connection)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.end("it was made to ask of which era the server is");
        }
    }
}
