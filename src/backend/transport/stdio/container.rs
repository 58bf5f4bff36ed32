//! A program in a container: the command that runs it there, and the one that removes what is left.
//!
//! The engine runs the container, so it outlives a gateway that is killed. Its name has the process that asked for it,
//! and a later process of the same kernel removes it when that one is gone.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use crate::{
    model::{BackendSpec, StdioSpec},
    support::{ProcessIdentity, Secret, kernel_identity},
};

/// Container engines; the first one found is used.
const ENGINES: [&str; 2] = ["podman", "docker"];

/// The label of containers, with the kernel of the process that asked for them.
const LABEL: &str = "io.lockkeeper.kernel";
/// Maximum time to find or remove containers that an earlier process left.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of the next container of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Path of a container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerEngine(String);

#[derive(Debug)]
pub(super) struct ProgramContainer {
    engine: ContainerEngine,
    name: String,
    environment: BTreeMap<String, Secret>,
}

// === impl ContainerEngine ===

impl ContainerEngine {
    /// Finds an engine in the `PATH` of this environment.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn find(environment: &BTreeMap<String, Secret>) -> Result<Self, String> {
        let path = environment.get("PATH").map_or("/bin:/usr/bin", |path| path.expose());
        let place =
            |name: &&str| path.split(':').map(|folder| Path::new(folder).join(name)).find(|file| file.is_file());
        let engine = ENGINES.iter().find_map(place);
        engine.map(|file| Self(file.display().to_string())).ok_or_else(|| {
            "`container` needs `podman` or `docker`, and neither is in PATH: install podman, or remove `container`"
                .to_owned()
        })
    }

    /// The command that ends and removes containers at once: their programs had time to end. podman would wait for ten
    /// seconds.
    fn removal(&self) -> &'static [&'static str] {
        if self.0.ends_with("podman") { &["rm", "--force", "--time=0"] } else { &["rm", "--force"] }
    }
}

// === impl ProgramContainer ===

impl ProgramContainer {
    /// Prepares a container for a program of this server; returns it with the command that runs `program` in `image`.
    /// Values of variables are not among the arguments, because every user of the machine can read those.
    pub(super) fn new(
        spec: &BackendSpec,
        program: &StdioSpec,
        image: &str,
        environment: &BTreeMap<String, Secret>,
    ) -> Result<(Self, StdioSpec), String> {
        let engine = ContainerEngine::find(environment)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (pid, began) = ProcessIdentity::own().map_or_else(|| (std::process::id(), 0), |own| (own.pid, own.began));
        let name = format!("lockkeeper-{}-{pid}-{began}-{number}", spec.id);
        let mut args: Vec<String> = ["run", "--rm", "--interactive", "--security-opt", "no-new-privileges", "--name"]
            .map(str::to_owned)
            .to_vec();
        args.push(name.clone());
        args.extend(kernel_identity().map(|kernel| format!("--label={LABEL}={kernel}")));
        for variable in program.env.keys() {
            args.extend(["--env".to_owned(), variable.clone()]);
        }
        if let Some(cwd) = &program.cwd {
            args.extend(["--workdir".to_owned(), cwd.display().to_string()]);
        }
        let core = spec.core.unwrap_or(0);
        args.push(format!("--ulimit=core={core}"));
        args.extend(spec.open_files.map(|files| format!("--ulimit=nofile={files}")));
        args.extend(spec.memory.map(|bytes| format!("--memory={bytes}")));
        args.extend(spec.processes.map(|number| format!("--pids-limit={number}")));
        args.extend(spec.cpu.map(|percent| format!("--cpus={}.{:02}", percent / 100, percent % 100)));
        args.extend([image.to_owned(), program.command.clone()]);
        args.extend(program.args.iter().cloned());
        let command = StdioSpec { command: engine.0.clone(), args, env: program.env.clone(), cwd: None };
        Ok((Self { engine, name, environment: environment.clone() }, command))
    }

    /// The command that ends and removes the container.
    pub(super) fn removal(&self) -> Command {
        self.command(&[self.engine.removal(), &[self.name.as_str()]].concat())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.engine.0);
        command.args(args).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value.expose())));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Removes the containers of processes that are gone.
    pub(super) async fn remove_orphans(&self) {
        let Some(kernel) = kernel_identity() else { return };
        let filter = format!("label={LABEL}={kernel}");
        let mut list = self.command(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"]);
        let listed = timeout(SWEEP_TIMEOUT, list.stdout(Stdio::piped()).output()).await;
        let Ok(Ok(listed)) = listed else { return };
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let orphans: Vec<&str> =
            text.lines().filter(|name| asked_by(name).is_some_and(|by| !by.is_running())).collect();
        if orphans.is_empty() {
            return;
        }
        let removed =
            timeout(SWEEP_TIMEOUT, self.command(&[self.engine.removal(), &orphans[..]].concat()).status()).await;
        let removed = removed.is_ok_and(|status| status.is_ok_and(|status| status.success()));
        tracing::warn!(containers = orphans.join(", "), removed, "an earlier process was killed and left containers");
    }
}

/// The process that asked for the container of this name.
fn asked_by(name: &str) -> Option<ProcessIdentity> {
    let mut words = name.strip_prefix("lockkeeper-")?.rsplit('-').skip(1);
    let (began, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(ProcessIdentity { pid, began })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::{BackendId, TransportSpec};

    fn environment(engines: &[&str]) -> (tempfile::TempDir, BTreeMap<String, Secret>) {
        let folder = tempfile::tempdir().unwrap();
        for engine in engines {
            fs::write(folder.path().join(engine), "").unwrap();
        }
        let path = Secret::new(folder.path().to_str().unwrap());
        (folder, BTreeMap::from([("PATH".to_owned(), path)]))
    }

    #[test]
    fn the_values_of_variables_are_no_arguments_and_limits_are_the_containers() {
        let (_folder, environment) = environment(&["docker"]);
        let env = BTreeMap::from([("API_KEY".to_owned(), Secret::new("hidden"))]);
        let program = StdioSpec { command: "server".to_owned(), args: vec!["-v".to_owned()], env, cwd: None };
        let id = BackendId::parse("files").unwrap();
        let spec = BackendSpec {
            memory: Some(64 << 20),
            processes: Some(10),
            cpu: Some(150),
            open_files: Some(99),
            ..BackendSpec::new(id, TransportSpec::Stdio(program.clone()))
        };
        let (container, command) = ProgramContainer::new(&spec, &program, "node:24", &environment).unwrap();
        let line = command.args.join(" ");
        assert!(command.command.ends_with("/docker"), "{}", command.command);
        assert!(line.starts_with("run --rm --interactive --security-opt no-new-privileges --name lockkeeper-files-"));
        assert_eq!(asked_by(&container.name), ProcessIdentity::own().filter(|own| own.is_running()));
        assert!(
            line.ends_with(
                "--env API_KEY --ulimit=core=0 --ulimit=nofile=99 --memory=67108864 --pids-limit=10 --cpus=1.50 \
                 node:24 server -v"
            ),
            "{line}"
        );
        assert!(!line.contains("hidden"));
        assert!(line.contains(&container.name));
        let (other, _) = ProgramContainer::new(&spec, &program, "node:24", &environment).unwrap();
        assert_ne!(container.name, other.name, "two users have containers of their own");
    }

    #[test]
    fn podman_goes_before_docker_and_without_both_the_reason_names_them() {
        let (_folder, both) = environment(&["docker", "podman"]);
        assert!(ContainerEngine::find(&both).unwrap().0.ends_with("/podman"));
        let why = ContainerEngine::find(&environment(&[]).1).unwrap_err();
        assert!(why.contains("`podman` or `docker`"), "{why}");
    }
}
