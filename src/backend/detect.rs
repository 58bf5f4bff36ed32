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
    life::Life,
    modern::{Peer, discover::Told},
    open::Failure,
    served::Backend,
};
use crate::{
    mcp::{ClientInfo, Era},
    model::TransportSpec,
};

/// What serves the gateway itself.
pub(crate) struct Opened {
    pub(crate) life: Life,
    /// Comes to an end where the server turns out to be of this other era.
    pub(crate) doubt: BoxFuture<'static, Era>,
}

impl Backend {
    /// Opens the base connection.
    pub(super) async fn open_base(&self) -> Result<Opened, Failure> {
        let client = Arc::new(ClientInfo::gateway());
        let opened = match self.era.again() {
            Some(verdict) => self.open_known(verdict, &client).await,
            None => self.find_out(&client).await,
        };
        self.opened(opened.as_ref().ok().map(|opened| &opened.life));
        opened
    }

    /// Opens it as a verdict says that was found earlier. Where the server does not bear it out, it is found out anew: at
    /// once where the server has said so, and the next time where a process was silent or ended.
    async fn open_known(&self, verdict: Verdict, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let failure = match self.open_in(verdict.era, &Key::base(), client).await {
            Ok(life) => {
                self.era.holds(verdict);
                self.pool.end_others(verdict.era);
                return Ok(Opened::sure(life));
            }
            Err(failure) if verdict.is_configured() => return Err(failure),
            Err(failure) => failure,
        };
        match (verdict.era, &failure.error) {
            (_, StartError::Incompatible(_)) | (Era::Legacy, StartError::Refused(_) | StartError::Malformed(_)) => {
                tracing::info!(backend = %self.spec.id, reason = %failure.error, "it is found out anew of which era the server is");
                self.find_out(client).await
            }
            // over HTTP an outage says nothing
            (_, StartError::Unreachable(_) | StartError::TimedOut(_)) if self.is_channel() => {
                self.era.doubt();
                Err(failure)
            }
            _ => Err(failure),
        }
    }

    /// Notes of which era the server was found to be, and ends what is left of another.
    pub(super) fn found(&self, era: Era) {
        self.era.found(era);
        self.pool.end_others(era);
    }

    async fn find_out(&self, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        let spare = self.approach(&Key::base())?;
        let mut asking = {
            let (spare, patience) = (Arc::clone(&spare), self.spec.start_timeout);
            async move { spare.discover(patience).await }.boxed()
        };
        let told = tokio::select! {
            told = &mut asking => told,
            () = self.room.tasks.end().cancelled() => return Err(StartError::Stopping.into()),
            () = sleep(self.spec.probe_timeout), if self.is_channel() => return self.find_out_between(&spare, asking, client).await,
        };
        self.settle(&spare, told, client).await
    }

    fn is_channel(&self) -> bool {
        matches!(self.spec.transport, TransportSpec::Stdio(_))
    }

    /// Acts on what the server told.
    async fn settle(&self, spare: &Arc<Peer>, told: Told, client: &Arc<ClientInfo>) -> Result<Opened, Failure> {
        match told {
            Told::Modern(introduction) => {
                spare.introduced(introduction);
                self.found(Era::Modern);
                Ok(Opened::sure(Life::Modern(Arc::clone(spare))))
            }
            Told::Legacy(reason) => {
                tracing::debug!(backend = %self.spec.id, reason, "the server is taken for one with a handshake");
                spare.end("the handshake is made on another connection");
                let session = self.greet(&Key::base(), client).await?;
                self.found(Era::Legacy);
                Ok(Opened::sure(Life::Legacy(session)))
            }
            Told::Unusable(error) | Told::Nothing(error) => {
                spare.end("it did not say who it is");
                Err(Failure { error, last_words: spare.last_words() })
            }
        }
    }

    /// Goes on waiting for the process that is silent, and tries the handshake with another meanwhile.
    async fn find_out_between(
        &self,
        spare: &Arc<Peer>,
        mut asking: BoxFuture<'static, Told>,
        client: &Arc<ClientInfo>,
    ) -> Result<Opened, Failure> {
        let base = Key::base();
        let mut greeting = pin!(self.greet(&base, client));
        tokio::select! {
            biased;
            told = &mut asking => {
                if matches!(told, Told::Modern(_)) {
                    return self.settle(spare, told, client).await;
                }
                spare.end("the handshake is made on another connection");
                let session = greeting.await?;
                self.found(Era::Legacy);
                Ok(Opened::sure(Life::Legacy(session)))
            }
            greeted = &mut greeting => match greeted {
                Ok(session) => {
                    self.found(Era::Legacy);
                    let spare = Arc::clone(spare);
                    // who answers late has answered
                    let doubt = async move {
                        let told = asking.await;
                        spare.end("the handshake is made on another connection");
                        if matches!(told, Told::Modern(_)) { Era::Modern } else { std::future::pending().await }
                    };
                    Ok(Opened { life: Life::Legacy(session), doubt: doubt.boxed() })
                }
                Err(failure) => {
                    let told = asking.await;
                    if matches!(told, Told::Modern(_)) {
                        return self.settle(spare, told, client).await;
                    }
                    spare.end("it did not say who it is");
                    Err(failure)
                }
            },
        }
    }
}

impl Opened {
    fn sure(life: Life) -> Self {
        Self { life, doubt: std::future::pending().boxed() }
    }
}
