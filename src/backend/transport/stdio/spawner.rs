//! The thread that starts programs. The kernel ends a program with the thread that started it, so that one lives as long as anybody
//! holds it, and those are the running programs too. Knows nothing of what they are.

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

/// Starts programs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    /// The launcher, which ends its program with this process; `None` where there is none.
    launcher: Option<Arc<Path>>,
    /// `None` if there is no thread: then programs are started where they are asked for.
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
    /// Starts the thread.
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

    /// The same for the programs of one backend.
    pub(crate) fn of_backend(&self) -> Self {
        Self { running: RunningPrograms::default(), ..self.clone() }
    }

    /// The programs of the backend that run.
    pub(crate) const fn running(&self) -> &RunningPrograms {
        &self.running
    }

    /// A command that runs this program, after the launcher has given up what `plan` says.
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

    /// The means of this machine. Tried once; that takes some milliseconds.
    pub(crate) fn means(&self) -> &ContainmentMeans {
        self.means.get_or_init(|| ContainmentMeans::find(self.launcher.as_deref()))
    }

    /// The same, as far as it was tried.
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
