//! One gateway at a time on a data folder.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use insta::assert_snapshot;

use super::{lockkeeper, shown};

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];

/// A gateway as a process. Dropping it kills it.
struct Gateway(Child);

impl Gateway {
    /// Starts it, and waits until it listens.
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(SERVE)
            .current_dir(folder)
            .env_clear()
            .env("XDG_RUNTIME_DIR", folder.join(".run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("is listening") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        Self(child)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder whose files this process may not use, and the program as it meets them. Root becomes somebody else for that,
/// who may not be able to reach the build or `TMPDIR`: both then lie where everybody can.
fn foreign() -> (tempfile::TempDir, impl Fn(&[&str]) -> String) {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let folder = if is_root { tempfile::tempdir_in(open_to_all()) } else { tempfile::tempdir() }.unwrap();
    let path = folder.path().to_owned();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut program = PathBuf::from(env!("CARGO_BIN_EXE_lockkeeper"));
    if is_root {
        // `cp` writes the copy, so that no process of another test inherits the descriptor and keeps the program busy.
        let copy = path.join("lockkeeper");
        assert!(Command::new("cp").arg(&program).arg(&copy).status().unwrap().success());
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        program = copy;
    }
    let run = move |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&path).env_clear().env("XDG_RUNTIME_DIR", path.join(".run"));
        command.stdin(Stdio::null());
        if is_root {
            command.uid(65534).gid(65534);
        }
        shown(&path, &command.output().unwrap())
    };
    (folder, run)
}

/// A folder for temporary files that every user can reach.
fn open_to_all() -> PathBuf {
    let reachable = |folder: &Path| {
        folder.ancestors().all(|part| fs::metadata(part).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
    };
    let known = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    known.into_iter().find(|folder| reachable(folder)).expect("a folder for temporary files that everybody can reach")
}

#[test]
fn files_of_another_user_are_named_with_their_owner_and_the_command_that_helps() {
    let (folder, run) = foreign();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o500)).unwrap();
    for arguments in
        [&[&SERVE[..], &["--log", "error"]].concat()[..], &["keys", "create", "laptop", "--data-dir", "data"]]
    {
        let told = run(arguments);
        assert!(told.starts_with("1\n"), "{told}");
        assert!(told.contains("this process runs as user ") && told.contains("FOLDER/data belongs to user "), "{told}");
        assert!(told.contains("with mode 0500"), "{told}");
        assert!(told.contains("`chown -R ") || told.contains("`chmod -R u+rwX FOLDER/data`"), "{told}");
    }
}

#[test]
fn a_data_folder_that_cannot_be_made_comes_with_the_command_that_makes_it() {
    let (folder, run) = foreign();
    fs::create_dir(folder.path().join("theirs")).unwrap();
    fs::set_permissions(folder.path().join("theirs"), fs::Permissions::from_mode(0o555)).unwrap();
    let told = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "theirs/data", "--log", "error"]);
    assert!(told.contains("FOLDER/theirs belongs to user ") && told.contains("-m 0700 FOLDER/theirs/data`"), "{told}");
}

#[test]
fn root_is_warned_before_it_creates_files_in_the_folder_of_another_user() {
    if !fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let create = || lockkeeper(folder.path(), &["keys", "create", "laptop", "--data-dir", "data"], &[]);
    assert!(!shown(folder.path(), &create()).contains("warning"));
    chown(&data, Some(65534), Some(65534)).unwrap();
    let told = shown(folder.path(), &create());
    assert!(told.starts_with("0\n"), "{told}");
    assert!(told.contains("warning: this process is root, and FOLDER/data belongs to user 65534"), "{told}");
    assert!(told.contains("`chown -R --reference=FOLDER/data FOLDER/data`"), "{told}");
}

#[test]
fn a_second_gateway_on_a_data_folder_says_so_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::start(folder.path());
    let second = lockkeeper(folder.path(), &[&SERVE[..], &["--log", "error"]].concat(), &[]);
    let process = first.0.id().to_string();
    assert_snapshot!(shown(folder.path(), &second).replace(&process, "NUMBER"), @r"
    1
    --- out
    --- err
    error: the gateway cannot run
      another gateway uses the data folder FOLDER/data (process NUMBER)
    help: stop the other one, or give this one a folder of its own: `--data-dir DIR`
    ");
    let keys = lockkeeper(folder.path(), &["keys", "list", "--data-dir", "data"], &[]);
    assert_eq!(keys.status.code(), Some(0), "commands read it meanwhile");
    // a kill frees it
    drop(first);
    Gateway::start(folder.path());
}
