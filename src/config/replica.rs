//! The section `[replica]`, which makes this gateway one of several on its database.

use std::net::SocketAddr;

use super::section::Section;
use crate::model::{ReplicaAddress, config_key::key_rows};

key_rows! {
    /// The keys of `[replica]`.
    pub(super) const KEYS {
        /// Address where this replica listens, only for the other replicas.
        ///
        /// They prove their identity to each other with keys stored in the database.
        listen: Text("address and port"), Required("\"0.0.0.0:8701\"");
        /// The address of this replica for the others. Required if `listen` is `0.0.0.0` or `[::]`.
        advertise: Text("host and port"), Derived("`listen`", "\"10.0.0.5:8701\"");
    }
}

/// Addresses of this replica for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// `listen`: address and port, only for the other replicas.
    pub listen: SocketAddr,
    /// `advertise`: its address for the others.
    pub advertise: ReplicaAddress,
}

impl ReplicaConfig {
    /// Reads the section; reports what is missing.
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        let (has_listen, has_advertise) = (section.has("listen"), section.has("advertise"));
        let listen = section.parsed("listen", |text| {
            let wrong = |_| "this must be an address and a port, such as `0.0.0.0:8701`".to_owned();
            text.parse::<SocketAddr>().map_err(wrong)
        });
        let advertise = section.parsed("advertise", ReplicaAddress::parse);
        if !has_listen {
            section.fault(
                "`listen` is missing",
                Some("set the address for the other replicas: `listen = \"0.0.0.0:8701\"`"),
            );
        }
        let listen = listen?;
        let own = || ReplicaAddress::parse(&listen.to_string()).ok().filter(|_| !listen.ip().is_unspecified());
        let advertise = advertise.or_else(own);
        if advertise.is_none() && !has_advertise {
            section.fault(
                "`advertise` is missing",
                Some("set the address under which the other replicas reach this one: `advertise = \"10.0.0.5:8701\"`"),
            );
        }
        Some(Self { listen, advertise: advertise? })
    }
}
