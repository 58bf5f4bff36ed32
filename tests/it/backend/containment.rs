//! Containment of programs as their operator sees it: what holds, what is missing, what is refused.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use lockkeeper::{
    backend::BackendDeps,
    model::{BackendSpec, Contain, ProgramRules, Protection, TransportSpec, status::BackendState},
    support::{
        ProcessIdentity, Secret,
        launcher::{HiddenPlaces, try_out},
    },
};
use serde_json::{Value, json};

use super::scripted_servers::{Scripts, everyday, gateway, start, start_with, started, text, tool, until};
use crate::kit::{carriers::Program, scripted::Script};

/// The reason for which the only server of a supervisor has failed.
async fn reason(spec: BackendSpec) -> String {
    let supervisor = start(vec![spec]);
    let reason = until("its failure", || match supervisor.status().remove(0).state {
        BackendState::Failed { reason, .. } => Some(reason),
        _ => None,
    })
    .await;
    supervisor.shutdown().await;
    reason
}

#[tokio::test]
async fn a_program_sees_an_empty_data_folder_and_the_status_says_by_what() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("master.key"), "").unwrap();
    let scripts = Scripts::new();
    let at_start = format!("export SEEN=\"$(ls {})\"", data.path().display());
    let mut spec =
        scripts.serve("files", everyday(Script::everyday()).run_as(Program { at_start, ..Program::default() }));
    let hidden = HiddenPlaces { folder: Some(data.path().to_owned()), ..HiddenPlaces::default() };
    spec.programs = Arc::new(ProgramRules { hidden, ..ProgramRules::default() });
    // its arguments name the folder, which would make it the program's own
    let (supervisor, server) = started(spec).await;
    let about: Value =
        serde_json::from_str(&text(tool(&server, gateway(), &json!({ "name": "about" }))).await).unwrap();
    let status = supervisor.status().remove(0).containment.unwrap();
    let trial = try_out(Path::new(env!("CARGO_BIN_EXE_lockkeeper")));
    if trial.no_namespace.is_none() && trial.landlock >= 6 {
        assert_eq!(about["environment"]["SEEN"], "", "{status:?}");
        assert_eq!(status.missing().count(), 0, "{status:?}");
    } else {
        assert!(status.missing().count() > 0 || trial.landlock < 6, "{trial:?}: {status:?}");
    }
    assert_eq!((status.level.as_str(), status.protections.len()), ("keys", Protection::ALL.len()));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_program_that_is_not_to_be_contained_runs_and_is_refused_where_that_is_required() {
    let scripts = Scripts::new();
    let spec = BackendSpec { contain: Some(Contain::Off), ..scripts.spec("open") };
    let (supervisor, _server) = started(spec.clone()).await;
    let status = supervisor.status().remove(0);
    assert_eq!(status.state, BackendState::Ready);
    assert_eq!(status.containment.unwrap().missing().count(), Protection::ALL.len());
    supervisor.shutdown().await;
    let programs = Arc::new(ProgramRules { is_required: true, ..ProgramRules::default() });
    let why = reason(BackendSpec { programs, ..spec }).await;
    assert!(why.contains("`require_containment` is set") && why.contains("`contain` is \"off\""), "{why}");
}

#[tokio::test]
async fn a_user_that_does_not_exist_is_the_fault_of_one_server() {
    let scripts = Scripts::new();
    let spec = BackendSpec { run_as: Some("no-such-user".to_owned()), ..scripts.spec("other") };
    let why = reason(spec).await;
    assert!(why.contains("`run_as` names the user `no-such-user`"), "{why}");
}

#[tokio::test]
async fn a_container_is_run_by_what_is_there_and_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let engine = folder.path().join("podman");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\n[ $1 = rm ] || [ $1 = ps ] && exit\nwhile [ $1 != image ]; do shift; done\nshift\nexec \"$@\"\n",
        log.display()
    );
    fs::write(&engine, script).unwrap();
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
    let scripts = Scripts::new();
    let mut spec = scripts.spec("boxed");
    let TransportSpec::Stdio(program) = &mut spec.transport else { panic!("a program") };
    program.env.insert("API_KEY".to_owned(), Secret::new("hidden"));
    let spec = BackendSpec { container: Some("image".to_owned()), memory: Some(64 << 20), spares: 0, ..spec };
    let supervisor = start_with(vec![spec], |mut deps: BackendDeps| {
        let path = deps.environment.get_mut("PATH").unwrap();
        *path = format!("{}:{path}", folder.path().display());
        deps
    });
    until("its start", || (supervisor.status().remove(0).state == BackendState::Ready).then_some(())).await;
    let status = supervisor.status().remove(0).containment.unwrap();
    assert!(status.level == "container" && status.missing().next().is_none(), "{status:?}");
    supervisor.shutdown().await;
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("run --rm --interactive --security-opt no-new-privileges --name lockkeeper-boxed-"), "{log}");
    assert!(log.contains(" --env API_KEY ") && !log.contains("hidden") && log.contains(" --memory=67108864 "), "{log}");
    let lines = |word: &str| log.lines().filter(|line| line.starts_with(word)).collect::<Vec<_>>();
    let (runs, removals) = (lines("run "), lines("rm "));
    let named = |line: &str| line.split(' ').find(|word| word.starts_with("lockkeeper-")).unwrap().to_owned();
    let named = |lines: Vec<&str>| lines.into_iter().map(named).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(named(runs), named(removals), "each is removed");
}

#[tokio::test]
async fn containers_of_a_killed_process_are_removed_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let engine = folder.path().join("podman");
    // this process runs, and the one with its number before it does not
    let own = ProcessIdentity::own().unwrap();
    let names = [
        format!("lockkeeper-boxed-{}-{}-7", own.pid, own.began),
        format!("lockkeeper-boxed-{}-{}-7", own.pid, own.began - 1),
        format!("lockkeeper-my-files-{}-1-0", u32::MAX),
        "lockkeeper-of-a-person".to_owned(),
    ];
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\ncase $1 in rm) exit;; ps) printf '%s\\n' {}; exit;; esac\n\
         while [ $1 != image ]; do shift; done\nshift\nexec \"$@\"\n",
        log.display(),
        names.join(" ")
    );
    fs::write(&engine, script).unwrap();
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
    let scripts = Scripts::new();
    let spec = BackendSpec { container: Some("image".to_owned()), spares: 0, ..scripts.spec("boxed") };
    let supervisor = start_with(vec![spec], |mut deps: BackendDeps| {
        let path = deps.environment.get_mut("PATH").unwrap();
        *path = format!("{}:{path}", folder.path().display());
        deps
    });
    let removal = until("the removal of what was left", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().find(|line| line.starts_with("rm ") && line.contains(&names[1])).map(str::to_owned)
    });
    assert_eq!(removal.await, format!("rm --force --time=0 {} {}", names[1], names[2]));
    supervisor.shutdown().await;
    let log = fs::read_to_string(log).unwrap();
    let listed: Vec<&str> = log.lines().filter(|line| line.starts_with("ps ")).collect();
    assert!(listed.len() == 1 && listed[0].contains("label=io.lockkeeper.kernel="), "{log}");
}
