//! The backends of one moment, and what each caller may see of them. Knows nothing of calls.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::{
    Mount,
    catalog::{self, Catalog},
    rewrite::Rewriter,
};
use crate::{
    mcp::{Context, Server},
    model::{Access, BackendId, Caller, Share},
};

/// The backends of one moment, in configured order. It never changes; another takes its place.
#[derive(Default)]
pub(crate) struct Set {
    pub(crate) mounts: Vec<Arc<Mounted>>,
    index: HashMap<String, usize>,
}

/// One backend in its place.
pub(crate) struct Mounted {
    /// Its name.
    pub(crate) id: BackendId,
    /// What it is called in front of people.
    title: Arc<str>,
    /// The backend itself.
    pub(crate) server: Arc<dyn Server>,
    read_only_tools: HashSet<String>,
    share: Share,
    /// What it offers.
    pub(crate) catalog: Arc<Catalog>,
    /// Ends its watch.
    pub(crate) stop: CancellationToken,
}

/// A backend that a caller may see, and how far.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) mounted: Arc<Mounted>,
    pub(crate) access: Access,
    /// Whether it is one of several, so that a question must say who asks.
    several: bool,
}

// === impl Set ===

impl Set {
    /// These backends. Of two with one name the first counts; the configuration does not let it come to that.
    pub(crate) fn new(mounts: Vec<Arc<Mounted>>) -> Self {
        let index = mounts.iter().enumerate().rev().map(|(at, mounted)| (mounted.id.to_string(), at)).collect();
        Self { mounts, index }
    }

    /// The backend of this name, whoever may see it.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Mounted>> {
        self.index.get(name).map(|at| &self.mounts[*at])
    }

    /// The backend of this name, where the caller may see it.
    pub(crate) fn seen(&self, caller: &Caller, name: &str) -> Option<Seen> {
        self.see(caller, self.find(name)?)
    }

    /// Every backend that the caller may see.
    pub(crate) fn all_seen(&self, caller: &Caller) -> Vec<Seen> {
        self.mounts.iter().filter_map(|mounted| self.see(caller, mounted)).collect()
    }

    fn see(&self, caller: &Caller, mounted: &Arc<Mounted>) -> Option<Seen> {
        let access = caller.rights.backends.access(&mounted.id)?;
        Some(Seen { mounted: Arc::clone(mounted), access, several: self.mounts.len() > 1 })
    }
}

// === impl Mounted ===

impl Mounted {
    /// Puts a backend in its place.
    pub(crate) fn new(mount: Mount, settings: catalog::Settings) -> Self {
        let stop = settings.cancel.child_token();
        let settings = catalog::Settings { cancel: stop.clone(), ..settings };
        let catalog = Catalog::new(mount.id.clone(), Arc::clone(&mount.server), mount.share, settings)
            .introduced(mount.introduction);
        Self {
            id: mount.id,
            title: mount.title.into(),
            server: mount.server,
            read_only_tools: mount.read_only_tools.into_iter().collect(),
            catalog: Arc::new(catalog),
            share: mount.share,
            stop,
        }
    }

    /// Whether the mount is what is in place already.
    pub(crate) fn is(&self, mount: &Mount) -> bool {
        self.id == mount.id
            && Arc::ptr_eq(&self.server, &mount.server)
            && *self.title == *mount.title
            && self.share == mount.share
            && self.read_only_tools == mount.read_only_tools.iter().cloned().collect()
    }
}

// === impl Seen ===

impl Seen {
    /// Whether the caller may see and call the tool of this (own) name.
    pub(crate) fn allows_tool(&self, name: &str) -> bool {
        match self.access {
            Access::Full => true,
            Access::ReadOnly => self.mounted.read_only_tools.contains(name),
        }
    }

    /// Whether this client is shown the tool of this (own) name, and so may call it.
    pub(crate) fn offers_tool(&self, context: &Context, name: &str) -> bool {
        self.allows_tool(name) && !self.mounted.catalog.leaves_out_tool(context, name)
    }

    /// Shows the backend's messages on the merged endpoint.
    pub(crate) fn rewriter(&self) -> Rewriter {
        let asks_as = self.several.then(|| Arc::clone(&self.mounted.title));
        Rewriter { backend: self.mounted.id.clone(), asks_as }
    }
}
