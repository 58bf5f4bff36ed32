//! The thread that starts programs. The kernel ends a program together with the thread that started it, so this thread
//! lives as long as there is a [`Spawner`]; each running program holds one.

use std::{
    io,
    path::Path,
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::OnceCell,
};

use super::{containment::ContainmentMeans, running_programs::RunningPrograms};
use crate::support::launcher::{self, LaunchPlan};

/// Starts programs. Cheap to clone; the last clone ends the thread.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    /// The launcher, which ends its program with this process; `None` on systems without one.
    launcher: Option<Arc<Path>>,
    /// `None` if the thread could not be started: then the calling thread starts programs.
    jobs: Option<mpsc::Sender<SpawnJob>>,
    means: Arc<OnceLock<ContainmentMeans>>,
    /// Set when the containers of earlier processes have been removed.
    swept: Arc<OnceCell<()>>,
    /// The programs of one backend.
    running: RunningPrograms,
}

type SpawnJob = Box<dyn FnOnce() + Send>;

// === impl Spawner ===

impl Spawner {
    /// Starts the thread. `launcher` is `None` on systems without one.
    pub(crate) fn new(launcher: Option<&Path>) -> Self {
        let (jobs, received) = mpsc::channel::<SpawnJob>();
        let thread = thread::Builder::new().name("programs".to_owned()).spawn(move || {
            for job in received {
                job();
            }
        });
        let (jobs, means, running) = (thread.is_ok().then_some(jobs), Arc::default(), RunningPrograms::default());
        Self { launcher: launcher.map(Into::into), jobs, means, swept: Arc::default(), running }
    }

    /// The same thread, with a list of its own for the programs of one backend.
    pub(crate) fn of_backend(&self) -> Self {
        Self { running: RunningPrograms::default(), ..self.clone() }
    }

    /// Running programs of the backend.
    pub(crate) const fn running(&self) -> &RunningPrograms {
        &self.running
    }

    /// A command that runs `program`, after the launcher has given up rights as `plan` says.
    pub(crate) fn command(&self, program: &str, plan: &LaunchPlan) -> Command {
        match &self.launcher {
            None => Command::new(program),
            Some(launcher) => {
                let mut command = Command::new(&**launcher);
                command.args(launcher::arguments(program.as_ref(), plan));
                command
            }
        }
    }

    /// True if programs are started by the launcher.
    pub(crate) fn has_launcher(&self) -> bool {
        self.launcher.is_some()
    }

    /// The means of containment on this machine. Tried once, which takes some milliseconds.
    pub(crate) fn means(&self) -> &ContainmentMeans {
        self.means.get_or_init(|| ContainmentMeans::find(self.launcher.as_deref()))
    }

    /// The same, if it was tried already.
    pub(crate) fn known_means(&self) -> Option<&ContainmentMeans> {
        self.means.get()
    }

    /// Whether the containers of earlier processes have been removed.
    pub(super) const fn swept(&self) -> &Arc<OnceCell<()>> {
        &self.swept
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
