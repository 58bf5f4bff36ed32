//! The tables of `lockkeeper status`. They fit a terminal of 100 columns.

use crate::{
    cli::terminal::{
        output::{Emphasis, Style},
        table::{Cell, TextTable},
    },
    model::status::{BackendState, BackendStatus, EraSource, EraStatus, GroupStatus, SessionStatus},
    support::printable,
};

/// Columns for the name of a server.
const NAME: usize = 26;
/// Columns for the name of a user or client.
const CALLED: usize = 24;
/// Columns for the id of a key, which its name follows.
const KEY: usize = 8;
/// Columns for a path.
const PATH: usize = 18;
/// Columns for the servers of a group.
const MEMBERS: usize = 40;

pub(super) fn backends(backends: &[BackendStatus], style: Style) -> String {
    let mut table =
        TextTable::new(&["SERVER", "STATE", "VERSION", "TOOLS", "SESSIONS", "RESTARTS", "PROCESSES", "MEMORY"]);
    for backend in backends {
        let version = backend.protocol_version.as_deref().unwrap_or("-");
        let numbers = [backend.counts.tools, backend.sessions, usize::try_from(backend.restarts).unwrap_or(usize::MAX)];
        let processes = backend.processes.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let memory = backend.memory_bytes.filter(|bytes| *bytes > 0).map_or_else(|| "-".to_owned(), mebibytes);
        let cells = [Cell::from(cut(&backend.id, NAME)), word(backend), Cell::from(version)];
        table.row(cells.into_iter().chain(numbers.map(Cell::from)).chain([processes, memory].map(Cell::from)));
    }
    table.render(style)
}

/// Further facts about the servers.
pub(super) fn details(backends: &[BackendStatus], style: Style) -> String {
    let mut table = TextTable::new(&["SERVER", "TRANSPORT", "ERA", "PROMPTS", "RESOURCES"]);
    for backend in backends {
        let (era, counts) = (era(backend), backend.counts);
        let cells = [cut(&backend.id, NAME), backend.transport.clone(), era].map(Cell::from);
        table.row(cells.into_iter().chain([counts.prompts, counts.resources].map(Cell::from)));
    }
    table.render(style)
}

/// The groups, with a blank line below; nothing if there are none.
pub(super) fn groups(groups: &[GroupStatus], style: Style) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["GROUP", "SERVERS", "URL"]);
    for group in groups {
        table.row([cut(&group.id, NAME), cut(&group.servers.join(", "), MEMBERS), group.url.clone()].map(Cell::from));
    }
    table.render(style) + "\n"
}

/// The connected clients. Clients of the newest protocol version have no session, so no id.
pub fn sessions(sessions: &[SessionStatus], style: Style) -> String {
    if sessions.is_empty() {
        return "No clients are connected.\n".to_owned();
    }
    let mut table = TextTable::new(&["SESSION", "USER", "CLIENT", "ENDPOINT", "VERSION", "IDLE"]);
    for session in sessions {
        let SessionStatus { id, client, endpoint, protocol_version, idle_seconds, .. } = session;
        let id = id.as_deref().unwrap_or("-");
        let (user, client, endpoint) = (cut(&user(session), CALLED), cut(client, CALLED), cut(endpoint, PATH));
        let cells = [id, &user, &client, &endpoint, protocol_version].map(Cell::from);
        table.row(cells.into_iter().chain([Cell::from(format!("{idle_seconds}s"))]));
    }
    table.render(style)
}

/// State of a backend, coloured.
pub(crate) fn state(backend: &BackendStatus) -> Cell {
    coloured(&backend.state, &backend.state.to_string())
}

/// The same in one word.
fn word(backend: &BackendStatus) -> Cell {
    coloured(&backend.state, backend.state.word())
}

fn coloured(state: &BackendState, text: &str) -> Cell {
    let emphasis = match state {
        BackendState::Ready | BackendState::Elsewhere => Emphasis::Good,
        BackendState::Starting { .. } | BackendState::Restarting { .. } => Emphasis::Waiting,
        BackendState::Failed { .. } => Emphasis::Bad,
    };
    Cell::from(text).emphasis(emphasis)
}

/// The user. For a key without a user name: the beginning of its id, and its name.
fn user(SessionStatus { user, key_name, .. }: &SessionStatus) -> String {
    match key_name {
        Some(name) => format!("{}… ({name})", user.chars().take(KEY).collect::<String>()),
        None => user.clone(),
    }
}

/// The protocol era of a backend, and how it was found.
fn era(backend: &BackendStatus) -> String {
    let Some(EraStatus { era, found, .. }) = &backend.era else { return "-".to_owned() };
    let found = match found {
        EraSource::Configured => "configured",
        EraSource::Probed => "probed",
        EraSource::Cached => "cached",
    };
    format!("{era}, {found}")
}

fn mebibytes(bytes: u64) -> String {
    format!("{}.{} MiB", bytes >> 20, (bytes >> 10) % 1024 * 10 / 1024)
}

/// The printable text, cut to this many columns; a cut text ends in "…".
fn cut(text: &str, columns: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= columns {
        return text;
    }
    let mut cut: String = text.chars().take(columns - 1).collect();
    cut.push('…');
    cut
}
