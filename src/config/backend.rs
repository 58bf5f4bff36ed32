//! One server: a table `[servers.<name>]`, or an entry of `mcpServers` or `servers`.

use std::path::Path;

use super::{
    dialect::Dialect,
    disclosure, keys,
    problem::{ConfigPlace, ConfigProblem},
    section::Section,
    server_auth, tool_rules,
    transport::{self, LAUNCHERS},
};
use crate::model::{
    BackendId, BackendSpec, EraChoice, Scope, ServerAuth, ServerUrl, StdioSpec, TransportSpec, config_key::key_rows,
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

/// Options of other programs that have no effect here, with how it is here and what to write.
const WITHOUT_EFFECT: [(&str, &str, &str); 2] = [
    ("headersHelper", "no program is run for headers here", "write them into `headers`, secrets as `${NAME}`"),
    (
        "sandboxEnabled",
        "it has no effect here: `contain` says what the program is kept from",
        "for a tighter sandbox, name an image in `container`, or let `command` make one, as `bwrap` does",
    ),
];

/// Options by their names in other programs, and here.
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

/// Keys that only programs have.
const OF_PROGRAMS: [&str; 8] = ["contain", "container", "run_as", "open_files", "core", "memory", "processes", "cpu"];

key_rows! {
    /// The keys that keep a server in the file without serving it.
    pub(super) const SWITCHES {
        /// With `true`, the server is left out.
        disabled: Flag, Value("false");
        /// With `false`, the server is left out.
        enabled: Flag, Value("true");
    }
}

key_rows! {
    /// The key of the rules for its tools.
    pub(super) const TOOLS {
        /// Rules for its tools: `[servers.<name>.tools]`.
        tools: Table("tools"), None("");
    }
}

/// Reads the backends of `section` in order, except disabled ones. Relative paths start at `folder`. Two names that are
/// equal after normalisation are an error (`translation` 5).
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
            if name == *other {
                section.fault(format!("`{name}` is listed twice, the first time at {at}"), Some("remove one of them"));
            } else {
                let what = format!("`{name}` and `{other}` ({at}) both become `{id}`");
                section.fault(what, Some("rename one of them"));
            }
        }
        names.push((name, place));
        let (disabled, enabled) = (section.flag("disabled"), section.flag("enabled"));
        let spec = read(&mut section, id.unwrap_or_else(placeholder), dialect, folder);
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

fn read(section: &mut Section<'_>, id: BackendId, dialect: Dialect, folder: &Path) -> Option<BackendSpec> {
    let transport = transport::read(section, dialect, folder);
    let defaults = BackendSpec::new(id, transport.as_ref().map_or(TransportSpec::Demo, |read| read.spec.clone()));
    // in files of other programs, `version` is the version of the server
    let keys = BackendSpec::KEYS.iter().filter(|key| dialect == Dialect::Own || key.name != "version");
    let (spec, _) = keys::read(section, keys, defaults);
    let tools = tool_rules::read(section.table("tools"));
    let auth = match dialect {
        Dialect::Own => server_auth::read(section, transport.as_ref().map(|read| &read.spec), spec.share),
        // these names mean something else in other programs
        Dialect::Shared => ServerAuth::None,
    };
    let transport = transport?;
    if !transport.spec.starts_process() {
        for key in OF_PROGRAMS {
            section.refuse(key, "this needs a `command`", "remove it, or set a `command`");
        }
    }
    disclosure::check_login(section, &transport.disclosure, &auth);
    let disclosure = disclosure::checked(section, transport.disclosure, spec.share);
    if spec.transport.has_sessions_alone() && spec.era == EraChoice::Modern {
        section.fault("HTTP+SSE has no protocol version without sessions", Some("remove `era`, or the type `sse`"));
    }
    Some(pinned(section, BackendSpec { disclosure, auth, tools, ..spec }))
}

/// The backend with the era of its configured version.
fn pinned(section: &Section<'_>, spec: BackendSpec) -> BackendSpec {
    let Some((era, version)) = spec.era_of_version().zip(spec.version) else { return spec };
    if spec.era != EraChoice::Auto && spec.era != era {
        section.fault(format!("`era` does not match the version {version}"), Some("remove one of the two"));
    }
    BackendSpec { era, ..spec }
}

/// A name for an unnamed command: the package or script that it runs, else its own name.
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
