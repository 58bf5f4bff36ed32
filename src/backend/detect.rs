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
        let (key, client) = (Key::base(), Arc::new(ClientInfo::gateway()));
        if self.era.again().is_some() {
            return match self.open(&key, &client).await {
                Ok(life) => Ok(Opened::sure(life)),
                Err(failure) if self.is_of_another_era(&failure.error) => self.find_out(&client).await,
                Err(failure) => Err(failure),
            };
        }
        let opened = self.find_out(&client).await;
        self.opened(opened.as_ref().ok().map(|opened| &opened.life));
        opened
    }

    /// Whether a start failed in a way that says that what was once found out does not hold any more.
    fn is_of_another_era(&self, error: &StartError) -> bool {
        !self.era.is_configured() && matches!(error, StartError::Incompatible(_))
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
                self.era.found(Era::Modern);
                Ok(Opened::sure(Life::Modern(Arc::clone(spare))))
            }
            Told::Legacy(reason) => {
                tracing::debug!(backend = %self.spec.id, reason, "the server is taken for one with a handshake");
                spare.end("the handshake is made on another connection");
                let session = self.greet(&Key::base(), client).await?;
                self.era.found(Era::Legacy);
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
                self.era.found(Era::Legacy);
                Ok(Opened::sure(Life::Legacy(session)))
            }
            greeted = &mut greeting => match greeted {
                Ok(session) => {
                    self.era.found(Era::Legacy);
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
