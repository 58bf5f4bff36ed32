//! Names for shell completion: servers and groups from the configuration, keys and users from the database. Completion
//! starts nothing, creates no file, and offers no names if they cannot be read at once.

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use clap::builder::StyledStr;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use tokio::time::timeout;
use toml_edit::DocumentMut;

use crate::{
    cli::{
        arguments,
        running::running_gateway,
        store,
        terminal::{
            global_args::GlobalArgs,
            output::Output,
            process::{CommandPurpose, ProcessContext},
        },
    },
    config::{self, ConfigSource, DatabasePlace, Environment, text_of},
    model::ApiKey,
    storage::Storage,
};

/// Maximum time to read the database, since a person waits.
const PATIENCE: Duration = Duration::from_millis(400);

/// The kind of thing that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Server,
    Group,
    /// A server or a group, both of which have an endpoint.
    Endpoint,
    Key,
    /// A user with a name; not a key that counts as a user.
    Person,
    User,
}

use NameKind::{Endpoint, Group, Key, Person, Server, User};

/// Arguments that name something: the command, and the id of the argument.
const PLACES: [(&str, &str, NameKind); 28] = [
    ("remove", "name", Server),
    ("restart", "server", Server),
    ("logs", "server", Server),
    ("client", "server", Endpoint),
    ("keys create", "user", Person),
    ("keys create", "servers", Server),
    ("keys create", "groups", Group),
    ("keys set", "id", Key),
    ("keys set", "servers", Server),
    ("keys set", "groups", Group),
    ("keys rotate", "id", Key),
    ("keys rotate", "user", Person),
    ("keys revoke", "id", Key),
    ("invite", "by", User),
    ("invite", "servers", Server),
    ("invite", "groups", Group),
    ("invite", "user", Person),
    ("users disable", "user", User),
    ("users enable", "user", User),
    ("users delete", "user", User),
    ("clients create", "servers", Server),
    ("clients create", "groups", Group),
    ("grants list", "user", User),
    ("grants revoke", "user", User),
    ("upstream list", "user", User),
    ("upstream disconnect", "user", User),
    ("upstream disconnect", "server", Server),
    ("audit", "user", User),
];

/// The context that the completed command would have.
#[derive(Clone)]
struct NameSource {
    environment: Environment,
    folder: PathBuf,
    program: PathBuf,
    options: GlobalArgs,
}

/// Adds the names as candidates to the arguments in [`PLACES`].
pub(super) fn added_to(lockkeeper: clap::Command, words: &[OsString], process: &ProcessContext) -> clap::Command {
    let option = |names: [&str; 2]| typed(words, names).map(PathBuf::from);
    let source = NameSource {
        environment: process.environment.clone(),
        folder: process.folder.clone(),
        program: process.program.clone(),
        options: GlobalArgs {
            config: option(["--config", "-c"]),
            data_dir: option(["--data-dir", "--data-dir"]),
            ..GlobalArgs::default()
        },
    };
    PLACES.into_iter().fold(lockkeeper, |lockkeeper, (command, argument, named)| {
        let source = source.clone();
        let candidates = ArgValueCandidates::new(move || source.names(named));
        let path: Vec<&str> = command.split(' ').collect();
        with_candidates(lockkeeper, &path, argument, candidates)
    })
}

fn with_candidates(
    command: clap::Command,
    path: &[&'static str],
    argument: &'static str,
    candidates: ArgValueCandidates,
) -> clap::Command {
    match path {
        [] => command.mut_arg(argument, |argument| argument.add(candidates)),
        [first, rest @ ..] => {
            command.mut_subcommand(*first, |command| with_candidates(command, rest, argument, candidates))
        }
    }
}

/// The value of an option in the words of a command line.
fn typed(words: &[OsString], names: [&str; 2]) -> Option<String> {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let after = words.windows(2).rev().find(|pair| names.contains(&pair[0])).map(|pair| pair[1].to_owned());
    let joined = words.iter().rev().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        names.contains(&name).then(|| value.to_owned())
    });
    joined.or(after)
}

// === impl NameSource ===

impl NameSource {
    fn names(&self, named: NameKind) -> Vec<CompletionCandidate> {
        self.found(named).unwrap_or_default()
    }

    fn found(&self, named: NameKind) -> Option<Vec<CompletionCandidate>> {
        let process = self.process()?;
        let plain = |names: Vec<String>| names.into_iter().map(CompletionCandidate::new).collect();
        Some(match named {
            Server => plain(servers_and_groups(&process)?.0),
            Group => plain(servers_and_groups(&process)?.1),
            Endpoint => {
                let (servers, groups) = servers_and_groups(&process)?;
                plain([servers, groups].concat())
            }
            Key => by_key(&keys(&process)?),
            Person => by_user(keys(&process)?.iter().filter(|key| !key.user.is_of_key())),
            User => by_user(keys(&process)?.iter()),
        })
    }

    /// The context of a command that only asks, without any output.
    fn process(&self) -> Option<ProcessContext> {
        let mut process = ProcessContext {
            environment: self.environment.clone(),
            folder: self.folder.clone(),
            program: self.program.clone(),
            options: self.options.clone(),
            purpose: CommandPurpose::default(),
            is_data_dir_named: false,
            output: Output::to(io::sink(), io::sink()),
        };
        running_gateway::follow(CommandPurpose::Asks, &mut process).ok()?;
        Some(process)
    }
}

/// The names in the configuration. If the file has errors, the names of its tables.
fn servers_and_groups(process: &ProcessContext) -> Option<(Vec<String>, Vec<String>)> {
    let source = config::source(&process.options.given(), &process.environment, &process.folder);
    let file = source.file().filter(|_| source != ConfigSource::Demo)?;
    if let Ok(config) = arguments::load(&process.options.given(), process) {
        let servers = config.backends.iter().map(|spec| spec.id.to_string()).collect();
        return Some((servers, config.groups.iter().map(|group| group.id.to_string()).collect()));
    }
    let document: DocumentMut = text_of(&process.folder.join(file)).ok()?.parse().ok()?;
    let names = |table: &str| -> Vec<String> {
        let table = document.get(table).and_then(toml_edit::Item::as_table_like);
        table
            .into_iter()
            .flat_map(|table| table.iter().map(|(name, _)| name.to_owned()))
            .filter(|name| is_plain(name))
            .collect()
    };
    Some((names("servers"), names("groups")))
}

/// The keys that are neither revoked nor expired.
fn keys(process: &ProcessContext) -> Option<Vec<ApiKey>> {
    let DatabasePlace::File(path) = arguments::data_places(process).ok()?.database else { return None };
    if !path.is_file() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let read = async {
        let storage = Storage::open_to_look(&path).await.ok()?;
        let keys = storage.keys().list().await.ok();
        storage.close().await;
        keys
    };
    let keys = runtime.block_on(async { timeout(PATIENCE, read).await }).ok().flatten();
    runtime.shutdown_background();
    let mut keys = keys?;
    let now = store::now();
    // a disabled user's keys too
    keys.retain(|key| key.revoked.is_none() && key.ends().is_none_or(|end| now < end));
    Some(keys)
}

/// The ids of keys, each with its name as help, and the names that only one key has.
fn by_key(keys: &[ApiKey]) -> Vec<CompletionCandidate> {
    let is_alone = |key: &ApiKey| keys.iter().filter(|other| other.name == key.name).count() == 1;
    let names = keys.iter().filter(|key| is_alone(key) && is_plain(&key.name));
    let names = names.map(|key| CompletionCandidate::new(key.name.clone()).help(Some(said(key.id.as_str()))));
    names.chain(keys.iter().map(|key| CompletionCandidate::new(key.id.as_str()).help(Some(said(&key.name))))).collect()
}

/// The names of users, and of keys that count as users.
fn by_user<'a>(keys: impl Iterator<Item = &'a ApiKey>) -> Vec<CompletionCandidate> {
    let mut users: Vec<&str> = keys
        .map(|key| if key.user.is_of_key() { key.name.as_str() } else { key.user.as_str() })
        .filter(|name| is_plain(name))
        .collect();
    users.sort_unstable();
    users.dedup();
    users.into_iter().map(CompletionCandidate::new).collect()
}

fn said(text: &str) -> StyledStr {
    text.to_owned().into()
}

/// True for a word without special meaning in any shell, since it goes onto the command line unquoted.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    /// The arguments of all commands whose ids or value names say that they name something.
    fn naming(command: &clap::Command, before: &str) -> Vec<(String, String)> {
        let is_naming = |argument: &&clap::Arg| {
            let shown: Vec<&str> =
                argument.get_value_names().into_iter().flatten().map(clap::builder::Str::as_str).collect();
            let is_word = ["server", "servers", "group", "groups", "user"].contains(&argument.get_id().as_str());
            is_word || shown.iter().any(|name| ["KEY", "USER", "SERVER", "GROUP"].contains(name))
        };
        let own = command.get_arguments().filter(is_naming).map(|one| (before.to_owned(), one.get_id().to_string()));
        let below =
            command.get_subcommands().flat_map(|one| naming(one, format!("{before} {}", one.get_name()).trim()));
        own.chain(below).collect()
    }

    #[test]
    fn every_word_that_names_something_is_completed() {
        let places: Vec<(String, String)> =
            PLACES.iter().map(|(command, argument, _)| ((*command).to_owned(), (*argument).to_owned())).collect();
        let missing: Vec<_> = naming(&Cli::command(), "").into_iter().filter(|one| !places.contains(one)).collect();
        assert_eq!(missing, Vec::new());
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_not_put_onto_its_line() {
        for plain in ["git", "my-server", "ann@example.com", "a.b+c"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["", "-rf", "a b", "$(touch x)", "`x`", "a;b", "a\u{1b}", "key:abc", "größe"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
