//! The single client of a gateway on standard input and output. Handshakes with servers can present it once it has sent
//! its first request.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Call, ClientInfo, Context, Era, Reply, Server};

/// The client; `None` until its first request. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SoleClient(Arc<watch::Sender<Option<Arc<ClientInfo>>>>);

/// An endpoint that records its client at the first call.
struct NotingEndpoint {
    client: SoleClient,
    endpoint: Arc<dyn Server>,
}

// === impl SoleClient ===

impl SoleClient {
    /// Wraps the endpoint so that its first caller becomes the known client.
    pub fn noted_at(&self, endpoint: Arc<dyn Server>) -> Arc<dyn Server> {
        Arc::new(NotingEndpoint { client: self.clone(), endpoint })
    }

    /// Waits for the client. Returns the description for a handshake with a server: the client itself if it has a
    /// session, otherwise the gateway.
    pub(crate) async fn told(&self) -> Arc<ClientInfo> {
        let mut told = self.0.subscribe();
        let known = told.wait_for(Option::is_some).await.ok().and_then(|client| client.clone());
        match known {
            Some(client) if client.revision.era() == Era::Legacy => client,
            Some(_) => Arc::new(ClientInfo::gateway()),
            // cannot happen: `self` holds the sender
            None => std::future::pending().await,
        }
    }

    /// True if handshakes present this client: the known client has a session, and is `client` or describes itself the
    /// same way.
    pub(crate) fn is(&self, client: &Arc<ClientInfo>) -> bool {
        let is_it = |told: &Arc<ClientInfo>| Arc::ptr_eq(told, client) || told.describes_itself_as(client);
        self.0.borrow().as_ref().is_some_and(|told| told.revision.era() == Era::Legacy && is_it(told))
    }

    /// True if the client is known and has a session.
    pub(crate) fn has_session(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|told| told.revision.era() == Era::Legacy)
    }

    fn note(&self, client: &Arc<ClientInfo>) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                *known = Some(Arc::clone(client));
            }
            is_first
        });
    }
}

impl Server for NotingEndpoint {
    fn call(&self, call: Call) -> Reply {
        self.client.note(&call.context.client);
        self.endpoint.call(call)
    }

    fn expect(&self, client: &Context) {
        self.endpoint.expect(client);
    }
}
