//! The program of a server on stdio: this one once more, as a single test that carries lines between its pipes and the
//! socket of a server in the process that wrote its command.

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

/// Runs the program with its output as standard error, since names of tests would be written to it, and with its standard error,
/// a pipe, beside.
const COMMAND: &str = r#"exec "$0" "$@" 3>&2 2>&1 >/dev/null"#;
/// Stands before the path of the socket.
const SOCKET: &str = "relay=";
/// Stands before what it writes to its standard error at its end.
const LAST_WORDS: &str = "last-words=";
/// Stands before the commands that it runs then.
const AT_END: &str = "at-end=";
/// Stands before the status with which it exits then.
const EXITS: &str = "exits=";
/// Stands before the file that it creates at a SIGTERM.
const LINGERS: &str = "lingers=";
const OUTLIVES: &str = "outlives-its-output";
const STUBBORN: &str = "stubborn";
/// Stands before the program's own arguments.
const ARGUMENTS: &str = "--";
/// The descriptor of the output.
const OUTPUT: i32 = 2;
/// The standard error.
const ERRORS: &str = "/dev/fd/3";

/// How a program on stdio behaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    /// Its own arguments.
    pub(crate) arguments: Vec<String>,
    /// Commands of the shell that it runs first.
    pub(crate) at_start: String,
    /// Commands of the shell that it runs if the server goes away.
    pub(crate) at_end: String,
    /// Its exit status if the server goes away, which is 3 otherwise.
    pub(crate) exits: Option<i32>,
    /// It ends at a SIGTERM, when it creates this file, and not with its input.
    pub(crate) lingers: Option<PathBuf>,
    /// What it writes to its standard error if the server goes away.
    pub(crate) last_words: String,
    /// It only closes its output if the server goes away.
    pub(crate) outlives: bool,
    /// It ends neither at a SIGTERM nor with its input.
    pub(crate) stubborn: bool,
}

/// A process that runs such a program, as it describes itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    group: i32,
    environment: BTreeMap<String, String>,
    arguments: Vec<String>,
}

/// The program for a server at this socket. Its own arguments are the last ones.
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

/// Ends with the status 0 once its input has ended, and with 3 if the server goes away before.
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

/// From now on a SIGTERM makes the program create this file and exit with the status 0.
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

/// Carries bytes until one side ends; true if that is the one that it reads. [`io::copy`] would splice: Linux holds the lock of the pipe then while it waits for bytes,
/// and a read at its other end waits too, though it must not.
fn carry(from: &mut impl io::Read, to: &mut impl io::Write) -> bool {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return false;
        }
    }
    true
}

/// Waits for a signal that nothing withstands; whoever started it may be gone before that.
fn outlive_nobody() {
    let parent = nix::unistd::getppid();
    while nix::unistd::getppid() == parent {
        thread::sleep(Duration::from_secs(1));
    }
}
