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
    /// Number of the start that made its server. A new number means a new server, whose lists are fetched again.
    pub generation: u64,
    /// Its server, for fetching the lists.
    pub server: Arc<dyn Server>,
    /// How the server announces events to clients; `None` if each client needs a listen at it.
    pub announcer: Option<Arc<dyn Announcer>>,
    /// The layers around it for client calls, outermost first.
    pub layers: Vec<Layer>,
    /// The gateway's own tool that sends a user to a page, listed in place of the server's tools until the user has
    /// visited the page; `None` if the server is the same for all users.
    pub connect_tool: Option<&'static str>,
    /// Last server information, perhaps from an earlier run of the gateway: sent to clients until the backend answers
    /// (`translation` 6.7).
    pub last_server_info: Option<Payload>,
}

// === impl ConfiguredBackend ===

impl ConfiguredBackend {
    pub(crate) fn id(&self) -> &BackendId {
        &self.spec.id
    }

    /// The users who share its lists. If a server needs something of each user, each user has their own.
    pub(crate) fn lists_shared(&self) -> Share {
        if self.spec.is_per_user() { Share::User } else { self.spec.share }
    }

    /// Digest of the server and the rules for its tools. Stored lists with another digest do not belong to this server.
    /// `None` for a server that always runs.
    pub(crate) fn section(&self) -> Option<Digest> {
        let server = self.spec.transport.server()?;
        Some(Digest::sha256(format!("{} {:?}", server.to_base64url(), self.spec.tools)))
    }

    /// True if `other` offers the same lists: the same server, shared and shown in the same way.
    pub(crate) fn lists_as(&self, other: &Self) -> bool {
        (self.id(), self.generation, self.lists_shared(), &self.spec.tools)
            == (other.id(), other.generation, other.lists_shared(), &other.spec.tools)
    }

    /// True if `other` is the same server with the same settings.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.generation == other.generation && self.spec == other.spec
    }
}
