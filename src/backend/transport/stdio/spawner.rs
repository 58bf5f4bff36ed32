//! The thread that starts programs. The kernel ends a program with the thread that started it, so that one lives as long as anybody
//! holds it, and those are the running programs too. Knows nothing of what they are.

use std::{io, path::Path, sync::mpsc, thread};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
};

use crate::support::launcher;

/// Starts programs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    /// The launcher, which ends its program with this process; `None` where there is none.
    launcher: Option<std::sync::Arc<Path>>,
    /// `None` if there is no thread: then programs are started where they are asked for.
    jobs: Option<mpsc::Sender<SpawnJob>>,
}

type SpawnJob = Box<dyn FnOnce() + Send>;

// === impl Spawner ===

impl Spawner {
    /// Starts the thread.
    pub(crate) fn new(launcher: Option<&Path>) -> Self {
        let (jobs, received) = mpsc::channel::<SpawnJob>();
        let thread = thread::Builder::new().name("programs".to_owned()).spawn(move || {
            for job in received {
                job();
            }
        });
        Self { launcher: launcher.map(Into::into), jobs: thread.is_ok().then_some(jobs) }
    }

    /// A command that runs this program.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.launcher {
            None => Command::new(program),
            Some(launcher) => {
                let mut command = Command::new(&**launcher);
                command.args(launcher::arguments(program.as_ref()));
                command
            }
        }
    }

    /// Starts a program. Must be called on a tokio runtime.
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let Some(jobs) = &self.jobs else { return command.spawn() };
        let (runtime, (started, result)) = (Handle::current(), mpsc::sync_channel(1));
        let job = Box::new(move || {
            let _entered = runtime.enter();
            let _ = started.send(command.spawn());
        });
        let gone = || io::Error::other("the thread that starts programs is gone");
        jobs.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}
