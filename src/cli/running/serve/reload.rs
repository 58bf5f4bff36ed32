//! Reloads the configuration of a running gateway when its file changes, and at SIGHUP.

use std::{convert::Infallible, io::IsTerminal as _, sync::Arc};

use super::config_watch::{ConfigWatch, Hangups};
use crate::{
    app::{ReloadReport, Reloader},
    cli::{arguments, terminal::process::ProcessContext},
    config::{self, CommandLineOptions, ConfigSource},
    model::BackendId,
};

/// Reads the configuration again at each change of its file and at each SIGHUP, and applies it. A configuration with
/// errors changes nothing. Never returns.
pub(super) async fn follow(
    source: &ConfigSource,
    given: &CommandLineOptions,
    process: &ProcessContext,
    reloader: Arc<Reloader>,
) -> Infallible {
    // a terminal that closes sends SIGHUP, which should end the gateway
    let hangups = if std::io::stderr().is_terminal() { Hangups::None } else { Hangups::of_process() };
    let file = source.file().map(|file| process.folder.join(file));
    let mut watch = ConfigWatch::new(file, hangups);
    loop {
        watch.changed().await;
        match config::load(given, &process.environment, &process.folder) {
            Ok(config) => {
                let report = reloader.apply(&config);
                tell(&report);
                if !report.is_empty() {
                    for warning in arguments::warnings(&config) {
                        tracing::warn!("{warning}");
                    }
                }
            }
            Err(problems) => {
                reloader.refuse(&problems.to_string());
                tracing::error!(
                    "the configuration has errors, so the gateway keeps using the previous one: {problems}"
                );
            }
        }
    }
}

/// Logs the effect of a configuration.
fn tell(report: &ReloadReport) {
    let ReloadReport { changes, applied, pending } = report;
    let names =
        |ids: &[BackendId]| (!ids.is_empty()).then(|| ids.iter().map(BackendId::as_str).collect::<Vec<_>>().join(" "));
    let (added, replaced, removed) = (names(&changes.added), names(&changes.replaced), names(&changes.removed));
    let changed = (!applied.is_empty()).then(|| applied.join(" "));
    tracing::info!(added, replaced, removed, changed, "the configuration was read again");
    if !pending.is_empty() {
        let pending = pending.join(", ");
        tracing::warn!("{pending}: changed, which takes effect at the next start");
    }
}
