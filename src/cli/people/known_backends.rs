//! Checks the names of servers and groups in arguments against those that exist.

use crate::{
    cli::{
        arguments,
        running::gateway_client::GatewayClient,
        terminal::{failure::CommandFailure, process::ProcessContext},
    },
    config::ConfigSource,
    model::{Access, BackendId},
};

/// The names of servers and groups that exist.
struct KnownNames {
    servers: Vec<String>,
    groups: Vec<String>,
}

/// Refuses servers and groups that the running gateway does not have, or the configuration if no gateway runs. Without
/// either, it accepts every name.
pub(super) async fn check(
    servers: &[(BackendId, Access)],
    groups: &[(BackendId, Access)],
    process: &ProcessContext,
) -> Result<(), CommandFailure> {
    if servers.is_empty() && groups.is_empty() {
        return Ok(());
    }
    let Some(known) = known(process).await else { return Ok(()) };
    for (id, _) in servers {
        refuse_unknown(id, "server", &known.servers, "--group", &known.groups)?;
    }
    for (id, _) in groups {
        refuse_unknown(id, "group", &known.groups, "--server", &known.servers)?;
    }
    Ok(())
}

/// A warning for each server that is opened with `:read` and has no `read_only_tools`.
pub(super) fn without_effect(servers: &[(BackendId, Access)], process: &ProcessContext) -> Vec<String> {
    let Ok(config) = arguments::load(&process.options.given(), process) else { return Vec::new() };
    let is_closed = |(id, access): &&(BackendId, Access)| {
        let spec = config.backends.iter().find(|spec| spec.id == *id);
        *access == Access::ReadOnly && spec.is_some_and(|spec| spec.read_only_tools.is_empty())
    };
    let warning = |(id, _): &(BackendId, Access)| {
        format!(
            "warning: `{id}:read` opens no tool, since the server has no `read_only_tools` in the configuration: list there what \
             these keys may call"
        )
    };
    servers.iter().filter(is_closed).map(warning).collect()
}

/// The names of the groups; `None` if there is neither a running gateway nor a configuration.
pub(super) async fn groups(process: &ProcessContext) -> Option<Vec<String>> {
    Some(known(process).await?.groups)
}

/// Refuses a name that is not `known`. If it is one of the `others`, the advice is to use `option`.
fn refuse_unknown(
    id: &BackendId,
    what: &str,
    known: &[String],
    option: &str,
    others: &[String],
) -> Result<(), CommandFailure> {
    let has = |names: &[String]| names.iter().any(|name| name == id.as_str());
    if has(known) {
        return Ok(());
    }
    let advice = match known {
        _ if has(others) => format!("give it as `{option} {id}`"),
        [] => format!("there are no {what}s"),
        known => format!("the {what}s are {}", known.join(", ")),
    };
    Err(CommandFailure::failed(format!("there is no {what} `{id}`")).advise(advice))
}

/// The names at the gateway that runs on the data, else in the configuration file.
async fn known(process: &ProcessContext) -> Option<KnownNames> {
    if let Ok(gateway) = GatewayClient::local(process)
        && let Ok((status, _)) = gateway.status().await
    {
        return Some(KnownNames {
            servers: status.backends.into_iter().map(|backend| backend.id).collect(),
            groups: status.groups.into_iter().map(|group| group.id).collect(),
        });
    }
    let config = arguments::load(&process.options.given(), process).ok()?;
    let is_named = config.source.file().is_some() && config.source != ConfigSource::Demo;
    is_named.then(|| KnownNames {
        servers: config.backends.iter().map(|spec| spec.id.to_string()).collect(),
        groups: config.groups.iter().map(|group| group.id.to_string()).collect(),
    })
}
