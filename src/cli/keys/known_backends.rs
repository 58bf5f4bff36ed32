//! Names of servers that a key is created for. Knows nothing of keys.

use crate::{
    cli::{arguments, failure::CommandFailure, gateway_client::GatewayClient, process::ProcessContext},
    config::ConfigSource,
    model::BackendId,
};

/// Refuses a server that neither the running gateway nor the configuration has. Without either, every name is taken.
pub(super) async fn check<'a>(
    wanted: impl Iterator<Item = &'a BackendId>,
    process: &ProcessContext,
) -> Result<(), CommandFailure> {
    let Some(known) = known(process).await else { return Ok(()) };
    for backend in wanted {
        if !known.iter().any(|id| id == backend.as_str()) {
            return Err(CommandFailure::usage(format!("there is no server `{backend}`"))
                .advise(format!("the servers are {}", known.join(", "))));
        }
    }
    Ok(())
}

/// The servers of the gateway that runs on the data, else of the configuration that is named or adjacent.
async fn known(process: &ProcessContext) -> Option<Vec<String>> {
    if let Ok(gateway) = GatewayClient::local(process)
        && let Ok((status, _)) = gateway.status().await
    {
        return Some(status.backends.into_iter().map(|backend| backend.id).collect());
    }
    let config = arguments::load(&process.options.given(), process).ok()?;
    let is_named = matches!(config.source, ConfigSource::Named(_) | ConfigSource::Adjacent(_));
    is_named.then(|| config.backends.iter().map(|spec| spec.id.to_string()).collect())
}
