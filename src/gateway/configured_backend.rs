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
    pub spec: Arc<BackendSpec>,
    /// Number of its server among all that had this name. A new number means a new server, whose lists are fetched
    /// again.
    pub generation: u64,
    /// Its server, for reading the lists.
    pub server: Arc<dyn Server>,
    /// The server's way of announcing events to clients; `None` if each client has to listen to it.
    pub announcer: Option<Arc<dyn Announcer>>,
    /// The layers around it for client calls, outermost first.
    pub layers: Vec<Layer>,
    /// The gateway's own tool that sends a user to a page, listed instead of the server's tools until the user has
    /// visited it; `None` if the server is the same for all users.
    pub connect_tool: Option<&'static str>,
    /// Last server information, perhaps from an earlier process of the gateway: sent to clients until the backend
    /// answers (`translation` 6.7).
    pub last_server_info: Option<Payload>,
}

// === impl ConfiguredBackend ===

impl ConfiguredBackend {
    pub(crate) fn id(&self) -> &BackendId {
        &self.spec.id
    }

    /// Sharing of its lists: if a server asks each user for something, each user has their own lists.
    pub(crate) fn lists_shared(&self) -> Share {
        if self.spec.is_per_user() { Share::User } else { self.spec.share }
    }

    /// Digest of the server and the rules for its tools: lists of another section do not belong to this server. `None`
    /// for a server that always runs.
    pub(crate) fn section(&self) -> Option<Digest> {
        let server = self.spec.transport.server()?;
        Some(Digest::sha256(format!("{} {:?}", server.to_base64url(), self.spec.tools)))
    }

    /// True if `other` lists the same: the same server, shared and shown in the same way.
    pub(crate) fn lists_as(&self, other: &Self) -> bool {
        (self.id(), self.generation, self.lists_shared(), &self.spec.tools)
            == (other.id(), other.generation, other.lists_shared(), &other.spec.tools)
    }

    /// True if `other` is the same server under the same settings.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.generation == other.generation && self.spec == other.spec
    }
}
