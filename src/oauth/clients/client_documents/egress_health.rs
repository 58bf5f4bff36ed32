//! Health of the gateway's own path to documents (`OA-149`). While it reaches no host, documents are not announced, so
//! that clients register instead. Failures of a host that a stranger chose change nothing here.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use url::Url;

use crate::{
    fetch::{EgressFault, FetchError, Fetcher, RefusedUrl, own_proxy_fault},
    support::{Clock, Timestamp},
};

/// Minimum time between two examinations of the network, for any number of unreadable documents.
const EXAMINE_EVERY: Duration = Duration::from_mins(1);

/// The fault of the gateway's own network, if there is one.
pub(super) struct EgressHealth {
    fetcher: Fetcher,
    /// Hosts of well-known clients.
    hosts: Arc<[String]>,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<HealthState>>,
}

#[derive(Default)]
struct HealthState {
    /// The fault, and the time of its discovery.
    fault: Option<(EgressFault, Timestamp)>,
    /// The last examination, and its start. Its waiters drive it, so it continues if a waiter gives up.
    examination: Option<(Timestamp, Shared<BoxFuture<'static, ()>>)>,
}

// === impl EgressHealth ===

impl EgressHealth {
    pub(super) fn new(fetcher: Fetcher, hosts: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        Self { fetcher, hosts: hosts.into(), clock, state: Arc::default() }
    }

    pub(super) fn fault(&self) -> Option<EgressFault> {
        self.state.lock().fault.map(|(fault, _)| fault)
    }

    /// Records that a host confirmed its document at this time.
    pub(super) fn confirmed(&self, at: Timestamp) {
        if self.state.lock().fault.take_if(|(_, found)| at >= *found).is_some() {
            tracing::info!("a document of a client could be read: documents are announced again");
        }
    }

    /// The fault behind the failure to read this document, if the fault is the gateway's own.
    pub(super) async fn failed(&self, url: &Url, failure: &FetchError) -> Option<EgressFault> {
        match failure {
            FetchError::Proxy(failure) => {
                let found = own_proxy_fault(url, failure, &self.hosts);
                if found.is_some() {
                    self.state.lock().note(found, self.clock.now());
                }
            }
            FetchError::Unresolved(_) | FetchError::NoRoute(_) | FetchError::Refused(RefusedUrl::Address) => {
                self.examination().await;
            }
            FetchError::Unreachable(_) => {}
            // the host was reached, or never tried
            FetchError::Broken(_)
            | FetchError::TooLarge(_)
            | FetchError::TooSlow(_)
            | FetchError::Busy
            | FetchError::Refused(_) => return None,
        }
        // the same answer for all unreachable hosts, so that it reveals nothing about this one
        self.fault()
    }

    /// The examination of the last minute, or a new one.
    fn examination(&self) -> Shared<BoxFuture<'static, ()>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some((begun, examination)) = &state.examination
            && now.since(*begun) < EXAMINE_EVERY
        {
            return examination.clone();
        }
        let (fetcher, hosts, noted) = (self.fetcher.clone(), Arc::clone(&self.hosts), Arc::clone(&self.state));
        let examination = async move {
            let found = fetcher.own_fault(&hosts).await;
            noted.lock().note(found, now);
        };
        let examination = examination.boxed().shared();
        state.examination = Some((now, examination.clone()));
        examination
    }
}

// === impl HealthState ===

impl HealthState {
    /// Records the result. If names and routes work, that proves nothing about the proxy.
    fn note(&mut self, found: Option<EgressFault>, now: Timestamp) {
        let before = self.fault.map(|(fault, _)| fault);
        match found {
            Some(fault) => {
                self.fault = Some((fault, now));
                if before != found {
                    warn(fault);
                }
            }
            None if before != Some(EgressFault::Proxy) => self.fault = None,
            None => {}
        }
    }
}

fn warn(fault: EgressFault) {
    tracing::warn!(
        reason = %fault,
        "metadata documents of clients cannot be read, and are not announced until one can be read: apps register instead. \
         Set `egress_proxy` in [auth] if there is a proxy, with `egress_proxy_resolves` if only the proxy resolves names; set \
         `fake_ip_resolver` for a resolver with fake addresses; or turn documents off with `client_documents = \"off\"`"
    );
}
