//! Arguments that say what a key or service account may do, from where, and until when.

use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use super::known_backends;
use crate::{
    cli::{
        arguments::values,
        store,
        terminal::{failure::CommandFailure, process::ProcessContext},
    },
    model::{Access, AllowedNetworks, BackendId, Rights},
    support::Timestamp,
};

/// Servers and groups that somebody may use.
#[derive(Debug, Args)]
pub(super) struct OpenedArgs {
    /// Servers that may be used; `ID:read` allows only read-only tools. Default: all
    #[arg(long = "server", alias = "backend", value_name = "ID[:read]", value_parser = values::server)]
    servers: Vec<(BackendId, Access)>,
    /// Groups that may be used, each at its own endpoint; `ID:read` allows only read-only tools
    #[arg(long = "group", value_name = "ID[:read]", value_parser = values::server)]
    groups: Vec<(BackendId, Access)>,
}

/// What a new key or service account may do.
#[derive(Debug, Args)]
pub(super) struct RightsArgs {
    #[command(flatten)]
    servers: OpenedArgs,
    /// Networks from which it may be used, such as `192.0.2.0/24`; may be given several times. Default: any
    #[arg(long = "network", value_name = "CIDR", value_parser = values::network)]
    networks: Vec<IpNet>,
    /// Time until it expires. Default: never
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    expires: Option<Duration>,
}

impl OpenedArgs {
    /// True if none of these arguments is given.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.groups.is_empty()
    }

    /// Refuses names that the gateway does not have.
    pub(super) async fn check(&self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        known_backends::check(&self.servers, &self.groups, process).await?;
        for warning in known_backends::without_effect(&self.servers, process) {
            process.output.remark(&warning);
        }
        Ok(())
    }

    /// The rights, without administration.
    pub(super) fn rights(&self) -> Rights {
        let named = || self.servers.iter().chain(&self.groups);
        let mut rights = if named().next().is_some() { Rights::none() } else { Rights::all_backends() };
        for (id, access) in named() {
            rights.backends.allow(id, *access);
        }
        rights
    }

    /// The names of servers, each with its access.
    pub(super) fn servers(&self) -> &[(BackendId, Access)] {
        &self.servers
    }

    /// The names of groups, each with its access.
    pub(super) fn groups(&self) -> &[(BackendId, Access)] {
        &self.groups
    }
}

impl RightsArgs {
    /// True if none of these arguments is given.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.networks.is_empty() && self.expires.is_none()
    }

    /// Refuses names that the gateway does not have.
    pub(super) async fn check(&self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.servers.check(process).await
    }

    /// The rights, without administration.
    pub(super) fn rights(&self) -> Rights {
        self.servers.rights()
    }

    pub(super) fn networks(&self) -> AllowedNetworks {
        self.networks.iter().copied().collect()
    }

    /// The time of expiry, counted from now.
    pub(super) fn expires(&self) -> Option<Timestamp> {
        self.expires.map(|lifetime| store::now() + lifetime)
    }
}
