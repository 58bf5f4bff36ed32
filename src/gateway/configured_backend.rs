//! A backend as the operator configured it, with the layers around its server.

use std::sync::Arc;

use crate::{
    layers::Layer,
    mcp::{Payload, Server, hearers::Announcer},
    model::{BackendId, BackendSpec, Share},
    support::Digest,
};

/// One backend and the operator's settings for it.
#[derive(Clone)]
pub struct ConfiguredBackend {
    /// Its configuration.
    pub spec: Arc<BackendSpec>,
    /// Number of its server among those that had this name: another number is another server, whose lists are fetched anew.
    pub generation: u64,
    /// Its server, as the lists are read from it.
    pub server: Arc<dyn Server>,
    /// The way in which the server tells clients; `None` if each has to listen at it.
    pub announcer: Option<Arc<dyn Announcer>>,
    /// The layers around it for the calls of clients, the outermost first.
    pub layers: Vec<Layer>,
    /// The gateway's own tool that leads a user to a page, listed in place of the server's while that is not reached
    /// without the page; `None` if the server is the same for all users.
    pub connect_tool: Option<&'static str>,
    /// Last server information, perhaps from an earlier process of the gateway: given to clients until the backend
    /// answers (`translation` 6.7).
    pub last_server_info: Option<Payload>,
}

// === impl ConfiguredBackend ===

impl ConfiguredBackend {
    /// Its name on this gateway.
    pub(crate) fn id(&self) -> &BackendId {
        &self.spec.id
    }

    /// Sharing of its lists: those of a server that asks each user for something are each user's own.
    pub(crate) fn lists_shared(&self) -> Share {
        if self.spec.is_per_user() { Share::User } else { self.spec.share }
    }

    /// Digest of the server and of the rules for its tools: lists of another section are not this one's. `None` for a server
    /// that is always there.
    pub(crate) fn section(&self) -> Option<Digest> {
        let server = self.spec.transport.server()?;
        Some(Digest::sha256(format!("{} {:?}", server.to_base64url(), self.spec.tools)))
    }

    /// True if `other` lists the same: the same server, shared and shown alike.
    pub(crate) fn lists_as(&self, other: &Self) -> bool {
        (self.id(), self.generation, self.lists_shared(), &self.spec.tools)
            == (other.id(), other.generation, other.lists_shared(), &other.spec.tools)
    }

    /// True if `other` is the same server under the same settings.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.generation == other.generation && self.spec == other.spec
    }
}
