//! The program of a stdio server: this test program again, as a single test that carries lines between its pipes and
//! the socket of a server in the process that wrote its command.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use lockkeeper::model::StdioSpec;
use nix::unistd::{Pid, getpgid};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the program with its output moved to standard error, since test names would be written to standard output. Its
/// real standard error, a pipe, is descriptor 3.
const COMMAND: &str = r#"exec "$0" "$@" 3>&2 2>&1 >/dev/null"#;
/// Prefix of the socket's path.
const SOCKET: &str = "relay=";
/// Prefix of its last words on standard error.
const LAST_WORDS: &str = "last-words=";
/// Prefix of the commands that it runs when the server goes away.
const AT_END: &str = "at-end=";
/// Prefix of its exit status after that.
const EXITS: &str = "exits=";
/// Prefix of the file that it creates on SIGTERM.
const LINGERS: &str = "lingers=";
const OUTLIVES: &str = "outlives-its-output";
const STUBBORN: &str = "stubborn";
/// Comes before the program's own arguments.
const ARGUMENTS: &str = "--";
/// The descriptor used for output.
const OUTPUT: i32 = 2;
/// The real standard error.
const ERRORS: &str = "/dev/fd/3";

/// Behaviour of a program on stdio.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) arguments: Vec<String>,
    /// Shell commands to run first.
    pub(crate) at_start: String,
    /// Shell commands to run if the server goes away.
    pub(crate) at_end: String,
    /// Exit status if the server goes away; 3 by default.
    pub(crate) exits: Option<i32>,
    /// If set, it ignores the end of its input, and ends on SIGTERM after creating this file.
    pub(crate) lingers: Option<PathBuf>,
    /// Text for its standard error if the server goes away.
    pub(crate) last_words: String,
    /// True if it only closes its output when the server goes away.
    pub(crate) outlives: bool,
    /// True if it ends neither on SIGTERM nor at the end of its input.
    pub(crate) stubborn: bool,
}

/// A process running such a program, as it describes itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    group: i32,
    environment: BTreeMap<String, String>,
    arguments: Vec<String>,
}

/// The program for a server at this socket. Its own arguments come last.
pub(super) fn program(socket: &Path, of: &Program) -> StdioSpec {
    let this = env::current_exe().unwrap().display().to_string();
    let trap = if of.stubborn { "trap '' TERM\n" } else { "" };
    let mut args = vec!["-c".to_owned(), format!("{trap}{}\n{COMMAND}", of.at_start), this];
    args.extend(["kit::relay::relay", "--exact", "--nocapture"].map(str::to_owned));
    args.push(format!("{SOCKET}{}", socket.display()));
    args.push(format!("{LAST_WORDS}{}", of.last_words));
    args.push(format!("{AT_END}{}", of.at_end));
    args.extend(of.exits.map(|status| format!("{EXITS}{status}")));
    args.extend(of.lingers.as_ref().map(|file| format!("{LINGERS}{}", file.display())));
    args.extend(of.outlives.then(|| OUTLIVES.to_owned()));
    args.extend(of.stubborn.then(|| STUBBORN.to_owned()));
    args.push(ARGUMENTS.to_owned());
    args.extend(of.arguments.clone());
    StdioSpec { command: "/bin/sh".to_owned(), args, env: BTreeMap::new(), cwd: None }
}

/// Exits with 0 at the end of its input, or with 3 if the server goes away first.
#[test]
#[expect(clippy::exit, reason = "it stands for a program")]
fn relay() {
    let word = |start: &str| env::args().find_map(|word| word.strip_prefix(start).map(str::to_owned));
    let Some(socket) = word(SOCKET) else { return };
    let (is_stubborn, outlives) = (word(STUBBORN).is_some(), word(OUTLIVES).is_some());
    let lingers = word(LINGERS);
    let outlives_its_input = is_stubborn || lingers.is_some();
    if let Some(file) = lingers {
        wait_for_sigterm(file);
    }
    let socket = UnixStream::connect(socket).unwrap();
    let mut to = socket.try_clone().unwrap();
    to.write_all(format!("{}\n", serde_json::to_string(&Process::this()).unwrap()).as_bytes()).unwrap();
    thread::spawn(move || {
        let has_ended = carry(&mut io::stdin().lock(), &mut to);
        // if the server is gone, the other direction ends the program
        if outlives_its_input || !has_ended {
            outlive_nobody();
        }
        let _ = to.shutdown(Shutdown::Write);
        process::exit(0);
    });
    carry(&mut &socket, &mut io::stderr().lock());
    if outlives {
        nix::unistd::close(OUTPUT).unwrap();
        outlive_nobody();
    }
    if let Some(words) = word(LAST_WORDS).filter(|words| !words.is_empty()) {
        writeln!(errors(), "{words}").unwrap();
    }
    if let Some(commands) = word(AT_END).filter(|commands| !commands.is_empty()) {
        let _ = process::Command::new("/bin/sh").args(["-c", &commands]).stderr(errors()).status();
    }
    process::exit(word(EXITS).map_or(3, |status| status.parse().unwrap()));
}

fn errors() -> File {
    File::options().write(true).open(ERRORS).unwrap()
}

impl Process {
    fn this() -> Self {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        Self {
            pid: Pid::this().as_raw(),
            group: getpgid(None).unwrap().as_raw(),
            environment: env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
            arguments: env::args().skip_while(|word| word != ARGUMENTS).skip(1).collect(),
        }
    }
}

/// Makes the program create this file on SIGTERM and exit with status 0.
#[expect(clippy::exit, reason = "it stands for a program")]
fn wait_for_sigterm(file: String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut asked = runtime.block_on(async { signal(SignalKind::terminate()) }).unwrap();
    thread::spawn(move || {
        runtime.block_on(asked.recv());
        File::create(file).unwrap();
        process::exit(0);
    });
}

/// Carries bytes until one side ends; true if the input ended first. [`io::copy`] would splice: while it waits for
/// bytes, Linux holds the lock of the pipe, and a read at its other end would wait too, though it must not.
fn carry(from: &mut impl io::Read, to: &mut impl io::Write) -> bool {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return false;
        }
    }
    true
}

/// Waits until it is killed or its parent process is gone.
fn outlive_nobody() {
    let parent = nix::unistd::getppid();
    while nix::unistd::getppid() == parent {
        thread::sleep(Duration::from_secs(1));
    }
}
