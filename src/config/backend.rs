//! One server: a table `[servers.<name>]`, or an entry of `mcpServers` or `servers`. Knows nothing of processes.

use std::{path::Path, time::Duration};

use url::Url;

use super::{
    dialect::Dialect,
    disclosure,
    problem::{ConfigPlace, ConfigProblem},
    section::Section,
    server_auth, tool_rules,
    transport::{self, LAUNCHERS, ServerUrl},
};
use crate::model::{
    BackendId, BackendSpec, EraChoice, OnLoss, Scope, ServerAuth, ServerHome, Share, StdioSpec, TransportSpec,
};

/// Options of other programs that are ignored.
const FOREIGN: [&str; 15] = [
    "alwaysAllow",
    "autoApprove",
    "autoStart",
    "chat.mcp",
    "description",
    "dev",
    "gallery",
    "icon",
    "id",
    "name",
    "presetId",
    "sandbox",
    "timeout",
    "trust",
    "version",
];

/// Options of other programs that have no effect here: what is so instead, and what to write.
const WITHOUT_EFFECT: [(&str, &str, &str); 2] = [
    ("headersHelper", "no program is run for headers here", "write them into `headers`, secrets as `${NAME}`"),
    (
        "sandboxEnabled",
        "the program runs without a sandbox here",
        "let `command` be a program that makes one, such as `bwrap` or `docker`",
    ),
];

/// Options as other programs call them, and as they are called here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("cmd", "command"),
    ("disabledTools", "tools.deny"),
    ("envFile", "env_file"),
    ("environment", "env"),
    ("excludeTools", "tools.deny"),
    ("httpUrl", "url"),
    ("includeTools", "tools.allow"),
    ("serverUrl", "url"),
    ("uri", "url"),
];

/// The protocol versions that have a handshake.
const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The stateless protocol version.
const MODERN_VERSION: &str = "2026-07-28";

/// Reads the backends of `section` in order, without the disabled ones. Relative paths are relative to `folder`. Two
/// names that are equal after normalisation are an error (`translation` 5).
pub(super) fn read_all(section: Section<'_>, dialect: Dialect, folder: &Path) -> Vec<BackendSpec> {
    let mut backends: Vec<BackendSpec> = Vec::new();
    let mut names: Vec<(&str, ConfigPlace)> = Vec::new();
    for (name, mut section) in section.tables() {
        let place = section.place();
        let id = match BackendId::normalise(name) {
            Ok(id) => {
                if let Some(reason) = Scope::reservation(&id) {
                    section.fault(reason.to_owned(), Some("choose another name"));
                }
                Some(id)
            }
            Err(error) => {
                section.fault(error.to_string(), Some("choose another name"));
                None
            }
        };
        let earlier = names.iter().find(|(other, _)| id.is_some() && BackendId::normalise(other).ok() == id);
        if let (Some((other, at)), Some(id)) = (earlier, &id) {
            let what = format!("`{name}` and `{other}` ({at}) both become `{id}`");
            section.fault(what, Some("rename one of them"));
        }
        names.push((name, place));
        let (disabled, enabled) = (section.flag("disabled"), section.flag("enabled"));
        let spec = read(&mut section, id.unwrap_or_else(placeholder), (dialect, folder));
        let version = match dialect {
            Dialect::Own => protocol_version(&mut section),
            // there, `version` is the version of the server
            Dialect::Shared => None,
        };
        let spec = spec.map(|spec| pinned(&mut section, spec, version));
        let spec = match dialect {
            Dialect::Own => spec,
            Dialect::Shared => {
                let tools = tool_rules::read_shared(&mut section);
                spec.map(|spec| BackendSpec { tools: spec.tools.or(tools), ..spec })
            }
        };
        match dialect {
            Dialect::Own => {
                section.called_elsewhere(&ELSEWHERE);
                section.finish();
            }
            Dialect::Shared => {
                section.without_effect(&WITHOUT_EFFECT);
                section.pass_over(&FOREIGN);
                section.finish_shared();
            }
        }
        backends.extend(spec.filter(|_| disabled != Some(true) && enabled != Some(false)));
    }
    backends
}

/// A backend for a command on the command line.
pub(super) fn from_command(command: &str, args: &[String]) -> BackendSpec {
    let (command, args) = (command.to_owned(), args.to_vec());
    let stdio = StdioSpec { command, args, env: std::collections::BTreeMap::new(), cwd: None };
    BackendSpec::new(name_of(&stdio.command, &stdio.args), TransportSpec::Stdio(stdio))
}

/// A backend for a URL on the command line.
pub(super) fn from_url(text: &str, folder: &Path) -> Result<BackendSpec, ConfigProblem> {
    let url = ServerUrl::parse(text).map_err(|what| ConfigProblem::new(ConfigPlace::Argument("--url"), what))?;
    let id = url.host().and_then(free_name).unwrap_or_else(placeholder);
    Ok(BackendSpec::new(id, url.transport(folder)))
}

/// The built-in demonstration backend.
pub(super) fn demo() -> BackendSpec {
    let id = BackendId::normalise("demo").unwrap_or_else(|_| placeholder());
    BackendSpec::new(id, TransportSpec::Demo)
}

fn read(section: &mut Section<'_>, id: BackendId, (dialect, folder): (Dialect, &Path)) -> Option<BackendSpec> {
    let transport = transport::read(section, dialect, folder);
    let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
    let share = section.choice("share", &[("session", Share::Session), ("user", Share::User), ("all", Share::All)]);
    let home = section.choice("home", &[("each", ServerHome::Each), ("one", ServerHome::One)]);
    let on_loss = section.choice("on_loss", &[("reinit", OnLoss::Reinit), ("end", OnLoss::End)]);
    let start_timeout = section.duration("start_timeout", second..=hour);
    let probe_timeout = section.duration("probe_timeout", second / 10..=hour);
    let call_timeout = section.duration("call_timeout", second..=hour * 24);
    let idle_timeout = section.duration("idle_timeout", second * 10..=hour * 24 * 30);
    let assume_version = section.choice("assume_version", &LEGACY_VERSIONS.map(|version| (version, version)));
    let parallel = section.count("parallel", 1..=1_000);
    let spares = section.count("spares", 0..=16);
    let read_only_tools = section.texts("read_only_tools");
    let allow_methods = tool_rules::names(section, "allow_methods");
    let tools = tool_rules::read(section.table("tools"));
    let calls = section.count("calls", 1..=1_000_000);
    let result_size = section.size("result_size", 1 << 10..=1 << 30);
    let heartbeat = section.duration("heartbeat", Duration::ZERO..=hour);
    let upgrade_to = section.parsed_list("upgrade_to", upgrade_url);
    let auth = match dialect {
        Dialect::Own => server_auth::read(section, transport.as_ref().map(|read| &read.spec), share),
        // other programs mean something else by these names
        Dialect::Shared => ServerAuth::None,
    };
    let eras = [("auto", EraChoice::Auto), ("modern", EraChoice::Modern), ("legacy", EraChoice::Legacy)];
    let era = section.choice("era", &eras);
    let transport = transport?;
    let default = BackendSpec::new(id, transport.spec);
    disclosure::check_login(section, &transport.disclosure, &auth);
    let disclosure = disclosure::checked(section, transport.disclosure, share.unwrap_or(default.share));
    if default.transport.has_sessions_alone() && era == Some(EraChoice::Modern) {
        section.fault("HTTP+SSE has no protocol version without sessions", Some("remove `era`, or the type `sse`"));
    }
    Some(BackendSpec {
        disclosure,
        auth,
        era: era.unwrap_or(default.era),
        share: share.unwrap_or(default.share),
        home: home.unwrap_or(default.home),
        on_loss: on_loss.unwrap_or(default.on_loss),
        start_timeout: start_timeout.unwrap_or(default.start_timeout),
        probe_timeout: probe_timeout.unwrap_or(default.probe_timeout),
        call_timeout: call_timeout.unwrap_or(default.call_timeout),
        idle_timeout: idle_timeout.unwrap_or(default.idle_timeout),
        assume_version,
        parallel: parallel.unwrap_or(default.parallel),
        spares: spares.unwrap_or(default.spares),
        read_only_tools: read_only_tools.unwrap_or_default(),
        allow_methods: allow_methods.unwrap_or_default(),
        tools,
        calls,
        result_size,
        heartbeat: heartbeat.map_or(default.heartbeat, |interval| (!interval.is_zero()).then(|| interval.max(second))),
        upgrade_to: upgrade_to.unwrap_or_default(),
        ..default
    })
}

/// A URL to which a server may move.
fn upgrade_url(text: &str) -> Result<Url, String> {
    match ServerUrl::parse(text)? {
        ServerUrl::Http(url) => Ok(url),
        ServerUrl::WebSocket(_) | ServerUrl::Socket(_) => Err("this must be a URL with http or https".to_owned()),
    }
}

/// The configured protocol version.
fn protocol_version(section: &mut Section<'_>) -> Option<&'static str> {
    let versions = LEGACY_VERSIONS.into_iter().chain([MODERN_VERSION]);
    section.choice("version", &versions.map(|version| (version, version)).collect::<Vec<_>>())
}

/// The backend at the configured protocol version, which implies the era.
fn pinned(section: &mut Section<'_>, spec: BackendSpec, version: Option<&'static str>) -> BackendSpec {
    let Some(version) = version else { return spec };
    let era = if version == MODERN_VERSION { EraChoice::Modern } else { EraChoice::Legacy };
    if spec.era != EraChoice::Auto && spec.era != era {
        section.fault(format!("`era` does not match the version {version}"), Some("remove one of the two"));
    }
    BackendSpec { era, version: Some(version), ..spec }
}

/// A name for an unnamed command: that of the package or script that it runs, else its own.
fn name_of(command: &str, args: &[String]) -> BackendId {
    let last = |text: &str| {
        let name = text.rsplit(['/', '\\']).next().unwrap_or_default().trim_start_matches('@');
        name.split('@').next().unwrap_or_default().trim_end_matches(".js").trim_end_matches(".py").to_owned()
    };
    let own = last(command);
    let runs = args.iter().find(|arg| !arg.starts_with('-') && !["run", "dlx", "exec", "tool"].contains(&arg.as_str()));
    let name = if LAUNCHERS.contains(&own.as_str()) { runs.map_or(own, |arg| last(arg)) } else { own };
    free_name(&name).unwrap_or_else(placeholder)
}

/// The backend name from `text`, unless it is reserved.
fn free_name(text: &str) -> Option<BackendId> {
    BackendId::normalise(text).ok().filter(|id| Scope::reservation(id).is_none())
}

/// The fallback name of a backend.
#[expect(clippy::expect_used, reason = "a constant that is a server name")]
fn placeholder() -> BackendId {
    BackendId::parse("server").expect("this is a server name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_backend_is_named_after_its_program() {
        let name = |command: &str, args: &[&str]| {
            name_of(command, &args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()).to_string()
        };
        assert_eq!(name("npx", &["-y", "@modelcontextprotocol/server-everything@1.2"]), "server-everything");
        assert_eq!(name("/usr/bin/uvx", &["mcp-server-git"]), "mcp-server-git");
        assert_eq!(name("python3", &["tools/weather.py"]), "weather");
        assert_eq!(name("./my_server", &["--stdio"]), "my-server");
        assert_eq!(name("npx", &[]), "npx");
        assert_eq!(name("7zip", &[]), "server");
        assert_eq!(name("./admin", &[]), "server");
    }
}
