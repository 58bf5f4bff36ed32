//! `--ca-file`: certificate authorities that a command trusts in addition to the system's.

use std::path::Path;

use super::{failure::CommandFailure, process::ProcessContext};
use crate::{config::text_of, fetch::tls, model::NetworkSpec};

/// Network settings that also trust the authorities in this file.
pub(super) fn network(file: Option<&Path>, process: &ProcessContext) -> Result<NetworkSpec, CommandFailure> {
    let Some(file) = file else { return Ok(NetworkSpec::default()) };
    let wrong = |why: &dyn std::fmt::Display| {
        CommandFailure::usage(format!("{} cannot be used as `--ca-file`", file.display())).why(why)
    };
    let unread = |error| CommandFailure::failed(format!("{} cannot be read", file.display())).why(error);
    let pem = text_of(&process.folder.join(file)).map_err(unread)?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(wrong(&"it has no certificate in PEM"));
    }
    let network = NetworkSpec { authorities: Some(pem), ..NetworkSpec::default() };
    tls::client_config(&network).map_err(|error| wrong(&error))?;
    Ok(network)
}
