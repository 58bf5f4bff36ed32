//! Decisions on machines with different kernels and rights.

use std::sync::Arc;

use super::*;
use crate::model::{BackendId, ProgramRules, TransportSpec};

const NO_NAMESPACE: &str = "user namespaces are not allowed here";

/// A machine with this version of Landlock, with or without namespaces.
fn machine(landlock: u8, has_namespaces: bool) -> ContainmentMeans {
    let no_namespace = (!has_namespaces).then(|| NO_NAMESPACE.to_owned());
    let groups = OnceLock::from(Err("this system has no cgroup v2".to_owned()));
    ContainmentMeans { trial: Some(LaunchTrial { landlock, no_namespace }), changes_users: false, groups }
}

fn spec(command: &str, args: &[&str]) -> BackendSpec {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let program = StdioSpec { command: command.to_owned(), args, env: BTreeMap::new(), cwd: Some("/".into()) };
    BackendSpec::new(BackendId::parse("files").unwrap(), TransportSpec::Stdio(program))
}

/// The same with this data folder.
fn with_data(mut spec: BackendSpec, folder: &Path) -> BackendSpec {
    let hidden = HiddenPlaces { folder: Some(folder.to_owned()), ..HiddenPlaces::default() };
    spec.programs = Arc::new(ProgramRules { hidden, ..ProgramRules::default() });
    spec
}

fn decided(spec: &BackendSpec, means: &ContainmentMeans) -> Result<Containment, String> {
    let TransportSpec::Stdio(program) = &spec.transport else { panic!("a program") };
    let environment = BTreeMap::from([("PATH".to_owned(), Secret::new("/nowhere"))]);
    Containment::decide(spec, program, &environment, means)
}

/// The status as text.
fn said(spec: &BackendSpec, means: &ContainmentMeans) -> String {
    let status = decided(spec, means).unwrap().status;
    let words = status.protections.iter().map(|state| match &state.note {
        Some(note) => format!("{state} ({note})"),
        None => state.to_string(),
    });
    words.collect::<Vec<_>>().join("; ")
}

#[test]
fn each_machine_gives_what_it_has_and_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = with_data(spec("server", &[]), folder.path());
    assert_eq!(said(&program, &machine(7, true)), "landlock; namespace; yes");
    let words = |landlock, has_namespaces| said(&program, &machine(landlock, has_namespaces));
    // Debian 12 allows user namespaces
    let old = words(2, true);
    assert!(old.starts_with("namespace (programs can send signals") && old.ends_with("; namespace; yes"), "{old}");
    // the same kernel in a container, with folders in which programs can create files
    let closed = words(2, false);
    assert!(closed.starts_with("landlock (no program in it can mount"), "{closed}");
    assert!(closed.contains(&format!("no ({NO_NAMESPACE}; Landlock would keep programs from creating files in ")));
    let nothing = words(0, false);
    assert!(nothing.starts_with("no (this kernel has no Landlock, or too old a one"), "{nothing}");
    assert!(nothing.ends_with("use `run_as` or `container`); yes"), "{nothing}");
    // future versions of Landlock are not needed
    assert_eq!(words(9, true), "landlock; namespace; yes");
}

#[test]
fn what_is_required_is_refused_where_it_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = with_data(spec("server", &[]), folder.path());
    Arc::make_mut(&mut program.programs).is_required = true;
    assert!(decided(&program, &machine(7, true)).is_ok());
    let why = decided(&program, &machine(7, false)).unwrap_err();
    assert!(why.contains("`require_containment` is set") && why.contains("data folder (user namespaces"), "{why}");
    let off = BackendSpec { contain: Some(Contain::Off), ..program.clone() };
    assert!(decided(&off, &machine(7, true)).unwrap_err().contains("`contain` is \"off\""));
    let sudo = BackendSpec { transport: spec("sudo", &["server"]).transport, ..program };
    assert!(decided(&sudo, &machine(7, true)).unwrap_err().contains("`sudo` needs privileges"));
}

#[test]
fn commands_that_need_rights_run_and_it_is_said_that_nothing_holds() {
    let sudo = spec("sudo", &["-n", "server"]);
    let contained = decided(&sudo, &machine(7, true)).unwrap();
    assert_eq!(contained.plan, LaunchPlan::default(), "it gives up nothing");
    assert_eq!(contained.status.missing().count(), Protection::ALL.len());
}

#[test]
fn a_program_that_lives_in_the_data_folder_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("server").display().to_string();
    for program in [spec(&server, &[]), spec("node", &[&server])] {
        let contained = decided(&with_data(program, folder.path()), &machine(7, true)).unwrap();
        assert_eq!(contained.plan.hidden, None);
        let note = contained.status.missing().next().unwrap().note.clone().unwrap();
        assert_eq!(note, "its command or an argument is in the data folder: move it out, or the data (`data_dir`)");
    }
}

#[test]
fn a_login_of_a_person_is_handed_on_and_a_file_that_a_server_names_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = spec("/usr/bin/lockkeeper", &["connect", "https://a.example/mcp"]);
    let hidden = decided(&with_data(program, folder.path()), &machine(7, true)).unwrap().plan.hidden.unwrap();
    assert_eq!(hidden.handed, ["logins", "local"].map(|name| folder.path().join(name)));
    let mut named = spec("server", &["--key=/etc/key.json"]);
    let files = ["/etc/key.json", "/etc/other.json"].map(PathBuf::from).to_vec();
    named.programs =
        Arc::new(ProgramRules { hidden: HiddenPlaces { files, ..HiddenPlaces::default() }, ..ProgramRules::default() });
    let hidden = decided(&named, &machine(7, true)).unwrap().plan.hidden.unwrap();
    assert_eq!(hidden.files, [PathBuf::from("/etc/other.json")]);
}

#[test]
fn what_this_machine_lacks_is_refused_with_what_to_do() {
    let why = |change: fn(&mut BackendSpec)| {
        let mut program = spec("server", &[]);
        change(&mut program);
        decided(&program, &machine(7, true)).unwrap_err()
    };
    for change in [
        (|spec| spec.memory = Some(1 << 30)) as fn(&mut BackendSpec),
        |spec| spec.processes = Some(10),
        |spec| spec.cpu = Some(100),
    ] {
        assert_eq!(
            why(change),
            "`memory`, `processes` and `cpu` need a cgroup of the gateway's own, and there is none: this system has no \
             cgroup v2"
        );
    }
    assert!(why(|spec| spec.run_as = Some("no-such-user".to_owned())).contains("create it, or correct the name"));
    let other = if geteuid().is_root() { "daemon" } else { "root" };
    let mut program = spec("server", &[]);
    program.run_as = Some(other.to_owned());
    assert!(decided(&program, &machine(7, true)).unwrap_err().contains("CAP_SETUID and CAP_SETGID"));
    assert!(why(|spec| spec.container = Some("node:24".to_owned())).contains("`podman` or `docker`"));
}
