//! One child process: start, process group, standard error, end.

use std::{
    collections::BTreeMap,
    io,
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, User},
};
use socket2::SockRef;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    process::{Child, ChildStderr},
    sync::watch,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    cgroup::ProgramGroup, container::ProgramContainer, containment::Containment, program_file, report,
    running_programs::RunningProgram, spawner::Spawner,
};
use crate::{
    backend::{
        error::StartError,
        transport::{
            UnansweredCalls,
            output_tail::{MAX_LINE, OutputTail},
        },
    },
    model::{BackendId, BackendSpec, StdioSpec, status::OutputStream},
    support::Secret,
};

/// Time for a child to end by itself after its standard input was closed. Many ignore that, and clients wait while a
/// gateway restarts.
const IDLE_GRACE: Duration = Duration::from_millis(300);
/// The same if the child works on a call; also the time to end after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(2);

/// How long the output of an ended child is still read, if another process holds it open.
const LEFT_OPEN: Duration = Duration::from_millis(1500);

/// Maximum time for removing a container.
const REMOVAL: Duration = Duration::from_secs(10);

/// Path for finding a program if its environment has none.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A running child process.
pub(super) struct Process {
    backend: BackendId,
    child: Child,
    stderr: ChildStderr,
    group: Group,
    output: OutputTail,
    around: AroundProgram,
    running: Option<RunningProgram>,
    /// Kept because the process ends with the thread that started it.
    spawner: Spawner,
}

/// The process group and the container of one program. They end with it.
#[derive(Default)]
struct AroundProgram {
    group: Option<ProgramGroup>,
    container: Option<ProgramContainer>,
}

/// The gateway's ends of a child's standard input and output.
pub(super) struct ChildStreams {
    /// Closing it ends the child's standard input. Never blocks.
    pub(super) input: StdUnixStream,
    pub(super) output: UnixStream,
}

/// The process group of a child, so that trees such as `npx -> sh -> node` end together. Dropping it kills the group.
struct Group(Option<Pid>);

// === impl Process ===

impl Process {
    /// Starts the program in a process group of its own.
    pub(super) fn start(
        server: &BackendSpec,
        program: &StdioSpec,
        mut environment: BTreeMap<String, Secret>,
        spawner: &Spawner,
        output: &OutputTail,
    ) -> Result<(Self, ChildStreams), StartError> {
        let contained = Containment::decide(server, program, &environment, spawner.means());
        let Containment { mut plan, user, status } = contained.map_err(StartError::NoCommand)?;
        let (around, program) = AroundProgram::make(server, program, &environment, spawner)?;
        plan.group = around.group.as_ref().map(|group| group.folder().to_owned());
        let (backend, spec) = (&server.id, &program);
        if let Some(user) = &user {
            at_home_of(user, spec, &mut environment);
        }
        if let Some(cwd) = &spec.cwd {
            program_file::check_folder(cwd).map_err(StartError::NoCommand)?;
        }
        let path = environment.get("PATH").map_or(DEFAULT_PATH, |path| path.expose());
        program_file::check(spec, path).map_err(StartError::NoCommand)?;
        let mut command = spawner.command(&spec.command, &plan);
        command.args(&spec.args).env_clear();
        let folder = spec.cwd.as_ref().or(user.as_ref().map(|user| &user.dir));
        if let Some(user) = user.as_ref().filter(|_| !spawner.has_launcher()) {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command.envs(environment.iter().map(|(name, value)| (name, value.expose())));
        let (streams, [stdin, stdout]) = ChildStreams::new().map_err(|error| {
            StartError::Unreachable(format!("the command `{}` cannot be given input and output: {error}", spec.command))
        })?;
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let started = spawner.spawn(command);
        let mut child = started.map_err(|error| {
            StartError::Unreachable(format!("the command `{}` cannot be started: {error}", spec.command))
        })?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let group = Group(pid);
        let Some(stderr) = child.stderr.take() else {
            return Err(StartError::Unreachable("the child has no standard error".to_owned()));
        };
        let contained = report::logged(backend, &status);
        tracing::info!(server = %backend, command = spec.command, pid = pid.map(Pid::as_raw), contained, "process started");
        let (backend, output) = (backend.clone(), output.clone());
        let process = Self { backend, child, stderr, group, output, around, running: None, spawner: spawner.clone() };
        Ok((process, streams))
    }

    /// Adds the process to the running programs of its backend; `stop` ends it.
    pub(super) fn listed(self, stop: &CancellationToken) -> Self {
        let running = self.child.id().map(|pid| self.spawner.running().began(pid, stop));
        Self { running, ..self }
    }

    /// Runs `writer`, which holds the child's standard input, until the child exits or `stop` is cancelled. Then ends
    /// the rest of its group, and sends the exit status to `exited`. A while later it stops reading `output`, which a
    /// daemon left behind by the child may hold open.
    pub(super) async fn run(
        self,
        writer: impl Future<Output = ()>,
        output: OwnedWriteHalf,
        stop: CancellationToken,
        unanswered: UnansweredCalls,
        exited: watch::Sender<Option<String>>,
    ) {
        let Self { backend, mut child, stderr, mut group, output: printed, around, running, spawner } = self;
        let over = CancellationToken::new();
        let live = async {
            let status = tokio::select! {
                status = child.wait() => Some(status),
                () = stop.cancelled() => None,
            };
            over.cancel();
            let asked_to_stop = status.is_none();
            let status = match status {
                Some(status) => status,
                None => group.end(&mut child, if unanswered.exist() { GRACE } else { IDLE_GRACE }).await,
            };
            // kills all other processes of the group, including one that holds standard error open
            group.kill();
            let text = describe(&status);
            if asked_to_stop {
                tracing::debug!(server = %backend, text, "process ended");
            } else {
                tracing::warn!(server = %backend, text, "process exited by itself");
            }
            text
        };
        // after the exit, the last lines are still in the pipe
        let reading = until_late(&over, keep(&printed, stderr, &backend));
        let sweeping = over.run_until_cancelled(around.sweep(&spawner));
        let (text, _, (), _) = tokio::join!(live, over.run_until_cancelled(writer), reading, sweeping);
        exited.send_replace(Some(text));
        drop(running);
        around.end().await;
        tokio::select! {
            // the reader has reached the end
            () = stop.cancelled() => {}
            () = until_late(&over, std::future::pending()) => {
                let _ = SockRef::from(output.as_ref()).shutdown(Shutdown::Read);
            }
        }
    }
}

/// Sets `HOME` and the like for the user that the program runs as.
fn at_home_of(user: &User, program: &StdioSpec, environment: &mut BTreeMap<String, Secret>) {
    let home = user.dir.display().to_string();
    for (name, value) in [("HOME", &home), ("USER", &user.name), ("LOGNAME", &user.name)] {
        if !program.env.contains_key(name) {
            environment.insert(name.to_owned(), Secret::new(value.as_str()));
        }
    }
    // these name folders of the gateway's own user
    environment.retain(|name, _| !name.starts_with("XDG_") || program.env.contains_key(name));
}

// === impl AroundProgram ===

impl AroundProgram {
    /// Makes the cgroup or the container that the configuration asks for. Returns the command to run, which may run the
    /// program in a container.
    fn make(
        server: &BackendSpec,
        program: &StdioSpec,
        environment: &BTreeMap<String, Secret>,
        spawner: &Spawner,
    ) -> Result<(Self, StdioSpec), StartError> {
        if let Some(image) = &server.container {
            let made = ProgramContainer::new(server, program, image, environment);
            let (container, program) = made.map_err(StartError::NoCommand)?;
            return Ok((Self { container: Some(container), group: None }, program));
        }
        let is_limited = server.memory.or(server.processes).or(server.cpu).is_some();
        let groups = spawner.means().groups();
        let group = match groups {
            Ok(groups) if is_limited => Some(groups.group(server).map_err(|error| {
                StartError::Unreachable(format!("the cgroup of the program cannot be made: {error}"))
            })?),
            _ => None,
        };
        Ok((Self { group, container: None }, program.clone()))
    }

    /// Removes what earlier processes of the gateway left behind, once.
    async fn sweep(&self, spawner: &Spawner) {
        if let Some(container) = &self.container {
            spawner.swept().get_or_init(|| container.remove_orphans()).await;
        }
    }

    /// Ends what the program left behind.
    async fn end(self) {
        let Some(container) = self.container else { return };
        let _ = timeout(REMOVAL, container.removal().status()).await;
    }
}

// === impl ChildStreams ===

impl ChildStreams {
    /// Creates the streams, and the child's ends of them. They are sockets, as in clients on Node.js. With pipes, a
    /// child that moves bytes between a socket and a pipe in the kernel (`splice`) holds the lock of the pipe while it
    /// waits. Then the reader or writer at the other end hangs too, even in non-blocking mode.
    fn new() -> io::Result<(Self, [Stdio; 2])> {
        let (input, stdin) = StdUnixStream::pair()?;
        let (output, stdout) = StdUnixStream::pair()?;
        input.shutdown(Shutdown::Read)?;
        output.shutdown(Shutdown::Write)?;
        let ends = [stdin, stdout].map(|end| Stdio::from(OwnedFd::from(end)));
        input.set_nonblocking(true)?;
        output.set_nonblocking(true)?;
        Ok((Self { input, output: UnixStream::from_std(output)? }, ends))
    }
}

/// Keeps the lines of standard error until it is closed.
async fn keep(output: &OutputTail, stderr: ChildStderr, backend: &BackendId) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // read a long line in pieces, so that it cannot fill the memory
        let piece = (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line).await;
        if matches!(piece, Ok(0) | Err(_)) {
            return;
        }
        let text = output.push(OutputStream::Stderr, &line);
        if !text.is_empty() {
            tracing::debug!(server = %backend, text, "standard error");
        }
    }
}

/// Runs `task` to its end, but for at most [`LEFT_OPEN`] after `over` is cancelled.
async fn until_late(over: &CancellationToken, task: impl Future<Output = ()>) {
    let late = async {
        over.cancelled().await;
        tokio::time::sleep(LEFT_OPEN).await;
    };
    tokio::select! {
        () = task => {}
        () = late => {}
    }
}

fn describe(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("the process exited ({status})"),
        Err(error) => format!("the process is gone ({error})"),
    }
}

// === impl Group ===

impl Group {
    /// Ends the child, whose standard input is closed: waits for `grace`, then sends `SIGTERM` to the group, then
    /// `SIGKILL`.
    async fn end(&mut self, child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(grace, child.wait()).await {
            return status;
        }
        self.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(GRACE, child.wait()).await {
            return status;
        }
        self.signal(Signal::SIGKILL);
        child.wait().await
    }

    /// Kills what is left of the group.
    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        // the kernel may now reuse the number for another group
        self.0 = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // fails for an empty group, which is fine
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
