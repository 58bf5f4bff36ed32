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
    era::Verdict,
    error::StartError,
    key::Key,
    legacy::Session,
    life::Life,
    modern::{Introduction, Peer, discover::Told},
    open::Failure,
    served::Backend,
};
use crate::mcp::{ClientInfo, Era};

/// What serves the gateway itself.
pub(crate) struct Opened {
    pub(crate) life: Life,
    /// Comes to an end where the server turns out to be of this other era.
    pub(crate) doubt: BoxFuture<'static, Era>,
}

/// A connection that was made to ask. Dropping it ends it, unless it was kept.
struct Spare {
    peer: Arc<Peer>,
    is_kept: bool,
}

impl Backend {
    /// Opens the base connection.
    pub(super) async fn open_base(&self) -> Result<Opened, Failure> {
        let client = Arc::new(ClientInfo::gateway());
        let opened = match self.era.again() {
            None => self.find_out(&client).await,
            Some(verdict) if verdict.is_configured() => {
                self.open_in(verdict.era, &Key::base(), &client).await.map(Opened::sure)
            }
            Some(verdict) if verdict.era == Era::Modern => self.confirm_modern(verdict, &client).await,
            Some(verdict) => self.confirm_legacy(verdict, &client).await,
        };
        self.opened(opened.as_ref().ok().map(|opened| &opened.life));
        opened
    }

    /// Notes of which era the server was found to be, and ends what is left of another.
    pub(super) fn found(&self, era: Era) {
        self.era.found(era);
        self.pool.end_others(era);
    }

    /// A session or a connection beside the base one could not be opened, since the server says that it is of another era:
    /// then the base one is an older process of it, or does not know yet that it is lost, and it is found out anew.
    pub(super) fn contradicted(&self, era: Option<Era>, error: &StartError) {
        let base = self.pool.base();
        if matches!(error, StartError::OtherEra(_)) && !self.era.is_configured() && base.era() == era {
            self.era.doubt();
            base.end("the server seems to be of another era than it was");
        }
    }

    /// Opens it as one that was found to be modern. It is asked who it is, and so the answer tells if it is not; but it may
    /// take its time.
    async fn confirm_modern(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.spare()?;
        match self.told(&spare).await? {
            Told::Modern(introduction) => {
                spare.peer.introduced(introduction);
                self.holds(verdict);
                Ok(Opened::sure(Life::Modern(spare.keep())))
            }
            told => {
                if self.spec.is_channel() && matches!(told, Told::Nothing(_)) {
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
        let failure = match self.greet(&Key::base(), client).await {
            Ok(session) => {
                self.holds(verdict);
                return Ok(Opened::sure(Life::Legacy(session)));
            }
            Err(failure) => failure,
        };
        match failure.error {
            StartError::OtherEra(_)
            | StartError::Incompatible { .. }
            | StartError::Refused(_)
            | StartError::Malformed(_) => {
                tracing::info!(backend = %self.spec.id, reason = %failure.error, "it is found out anew of which era the server is");
                self.find_out(client).await
            }
            StartError::Unreachable(_) | StartError::TimedOut(_) if self.spec.is_channel() => {
                self.era.doubt();
                Err(failure)
            }
            _ => Err(failure),
        }
    }

    /// Notes that the server is what it was, and ends what is left of another era.
    fn holds(&self, verdict: Verdict) {
        self.era.holds(verdict);
        self.pool.end_others(verdict.era);
    }

    async fn find_out(&self, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.spare()?;
        let mut asking = {
            let (peer, patience) = (Arc::clone(&spare.peer), self.spec.start_timeout);
            async move { peer.discover(patience).await }.boxed()
        };
        let told = tokio::select! {
            told = &mut asking => told,
            () = self.room.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            () = sleep(self.spec.probe_timeout), if self.spec.is_channel() => return self.find_out_between(spare, asking, client).await,
        };
        self.settle(spare, told, client).await
    }

    /// A connection on which it is only asked, unless it is kept.
    fn spare(&self) -> Result<Spare, Failure> {
        Ok(Spare { peer: self.approach(&Key::base())?, is_kept: false })
    }

    /// What the server tells on it.
    async fn told(&self, spare: &Spare) -> Result<Told, Failure> {
        tokio::select! {
            told = spare.peer.discover(self.spec.start_timeout) => Ok(told),
            () = self.room.tasks.end().cancelled() => Err(StartError::Stopping.into()),
        }
    }

    /// Acts on what the server told.
    async fn settle(&self, spare: Spare, told: Told, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        match told {
            Told::Modern(introduction) => Ok(self.is_modern(spare, introduction)),
            Told::Legacy(reason) | Told::Ended(reason) => {
                tracing::debug!(backend = %self.spec.id, reason, "the server is taken for one with a handshake");
                drop(spare);
                match self.greet(&Key::base(), client).await {
                    Ok(session) => Ok(self.is_legacy(session)),
                    Err(Failure { error: StartError::OtherEra(contrary), stderr_tail }) => {
                        let spare = self.spare()?;
                        match self.told(&spare).await? {
                            Told::Modern(introduction) => Ok(self.is_modern(spare, introduction)),
                            // perhaps it is being replaced in this moment
                            _ => Err(Failure { error: StartError::Refused(contrary), stderr_tail }),
                        }
                    }
                    Err(failure) => Err(failure),
                }
            }
            Told::Unusable(error) | Told::Nothing(error) => {
                Err(Failure { error, stderr_tail: spare.peer.stderr_tail() })
            }
        }
    }

    fn is_modern(&self, spare: Spare, introduction: Introduction) -> Opened {
        spare.peer.introduced(introduction);
        self.found(Era::Modern);
        Opened::sure(Life::Modern(spare.keep()))
    }

    fn is_legacy(&self, session: Arc<Session>) -> Opened {
        self.found(Era::Legacy);
        Opened::sure(Life::Legacy(session))
    }

    /// Goes on waiting for the process that is silent, and tries the handshake with another meanwhile.
    async fn find_out_between(
        &self,
        spare: Spare,
        mut asking: BoxFuture<'static, Told>,
        client: &Arc<ClientInfo>,
    ) -> Result<Opened, Failure> {
        let base = Key::base();
        let mut greeting = pin!(self.greet(&base, client));
        tokio::select! {
            biased;
            told = &mut asking => {
                if let Told::Modern(introduction) = told {
                    return Ok(self.is_modern(spare, introduction));
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
                    Told::Modern(introduction) => Ok(self.is_modern(spare, introduction)),
                    _ => Err(failure),
                },
            },
        }
    }
}

impl Opened {
    fn sure(life: Life) -> Self {
        Self { life, doubt: std::future::pending().boxed() }
    }
}

// === impl Spare ===

impl Spare {
    fn keep(mut self) -> Arc<Peer> {
        self.is_kept = true;
        Arc::clone(&self.peer)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if !self.is_kept {
            self.peer.end("it was made to ask of which era the server is");
        }
    }
}
