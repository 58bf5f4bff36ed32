//! What a contained program tries to reach, and what comes of it with each mechanism. Some of it succeeds: the table says what a
//! mechanism does not stop.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{TcpListener, UdpSocket},
    os::{
        fd::AsRawFd as _,
        linux::net::SocketAddrExt as _,
        unix::{fs::PermissionsExt as _, net::SocketAddr, net::UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use lockkeeper::support::launcher::{self, HiddenPlaces, LandlockDomain, LaunchPlan, try_out};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    unistd::geteuid,
};
use tempfile::TempDir;

const LAUNCHER: &str = env!("CARGO_BIN_EXE_lockkeeper");

/// The mechanisms, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Namespace,
    Landlock,
    RunAs,
    Off,
}

/// Attempts, and whether each succeeds: in a namespace, in a domain around the places, as another user, without containment. `-` is not
/// tried. A script ends with 0 if it got what it wanted.
const ESCAPES: [(&str, &str, &str); 36] = [
    ("reads the master key", "cat data/master.key", "no no no yes"),
    ("reads the database", "cat data/lockkeeper.sqlite3", "no no no yes"),
    ("reads control.json", "cat data/control.json", "no no no yes"),
    ("reads a log in the data folder", "cat data/gateway.log", "no no no yes"),
    ("sees the names in the data folder", "ls data | grep master", "no yes no yes"),
    ("reads the configuration", "grep word lockkeeper.toml", "no no no yes"),
    ("reads a file that the configuration names", "grep word named.env", "no no no yes"),
    ("changes the configuration", "echo >> lockkeeper.toml", "no no no yes"),
    ("puts another file in place of the configuration", "mv open/mine lockkeeper.toml", "no no no -"),
    ("writes into the data folder", "echo > data/new", "no no no yes"),
    ("removes a file of the data", "rm data/victim", "no no no yes"),
    ("empties a file of the data", "truncate -s 0 data/gateway.log", "no no no -"),
    ("moves the data folder", "mv data moved", "no no no -"),
    ("takes the mount away", "umount data && cat data/master.key", "no no no -"),
    (
        "takes the mount away in a namespace of its own",
        "unshare -Urm sh -c 'umount data; cat data/master.key'",
        "no no no -",
    ),
    ("follows a symbolic link made before", "cat open/symlink", "no no no yes"),
    ("reads a hard link made before", "cat open/hardlink", "yes yes no yes"),
    ("makes a hard link", "ln data/control.json open/fresh && cat open/fresh", "no no no yes"),
    ("uses a descriptor that the gateway was given", "cat <&$LEAKED", "no no no no"),
    ("reads the environment of another server", "grep -a WORD /proc/$OTHER/environ", "no no no yes"),
    ("reads the memory of another server", "head -c 1 /proc/$OTHER/maps | grep .", "no no no yes"),
    ("reads the arguments of another server", "grep -a sleep /proc/$OTHER/cmdline", "yes yes yes yes"),
    ("enters the folder of another server", "ls /proc/$OTHER/cwd/", "no no no yes"),
    ("reads the key through another server's root", "cat /proc/$OTHER/root/$PWD/data/master.key", "no no no yes"),
    (
        "attaches to another server",
        "python3 -c 'import ctypes,os,sys; sys.exit(ctypes.CDLL(None).ptrace(16,int(os.environ[\"OTHER\"]),0,0) != 0)'",
        "no no no yes",
    ),
    ("signals another server", "kill -0 $OTHER", "no no no yes"),
    (
        "reaches an abstract socket",
        "python3 -c 'import socket,os; socket.socket(socket.AF_UNIX).connect(\"\\0\" + os.environ[\"ABSTRACT\"])'",
        "no no no yes",
    ),
    (
        "reaches the docker socket",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"docker.sock\")'",
        "yes yes no yes",
    ),
    ("gains rights by a setuid program", "grep 'NoNewPrivs:.*0' /proc/self/status", "no no no yes"),
    ("has a capability", "grep 'CapEff:.*[1-9a-f]' /proc/self/status", "no no no -"),
    ("reads SSH keys", "cat home/.ssh/id_ed25519", "yes yes no yes"),
    ("writes a startup file", "echo >> home/.bashrc", "yes yes no yes"),
    (
        "reaches the cloud's metadata",
        "python3 -c 'import socket,os; socket.create_connection((\"127.0.0.1\", int(os.environ[\"HTTP\"])))'",
        "yes yes yes yes",
    ),
    (
        "sends by names that it looks up",
        "python3 -c 'import socket,os; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b\"x\",(\"127.0.0.1\",int(os.environ[\"DNS\"])))'",
        "yes yes yes yes",
    ),
    (
        "takes processes, memory and disk",
        "for i in 1 2 3 4 5 6 7 8; do sleep 0 & done; wait; f=/dev/shm/lockkeeper-$$ && head -c 1000000 /dev/zero > $f && rm $f",
        "yes yes yes yes",
    ),
    ("writes its memory to a file as it crashes", "test $(ulimit -c) != 0", "no no no no"),
];

/// A gateway's places, and processes around them.
struct Surroundings {
    folder: TempDir,
    other: Child,
    leaked: File,
    http: TcpListener,
    dns: UdpSocket,
    abstract_name: String,
    _sockets: [UnixListener; 2],
}

impl Surroundings {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mode =
            |file: &str, mode: u32| fs::set_permissions(path.join(file), fs::Permissions::from_mode(mode)).unwrap();
        mode("", 0o755);
        for (inner, bits) in [("data", 0o700), ("open", 0o755), ("home", 0o755), ("home/.ssh", 0o700)] {
            fs::create_dir(path.join(inner)).unwrap();
            mode(inner, bits);
        }
        let data = ["master.key", "lockkeeper.sqlite3", "control.json", "gateway.log", "victim"];
        let data = data.map(|file| format!("data/{file}"));
        let others = ["lockkeeper.toml", "named.env", "home/.ssh/id_ed25519", "home/.bashrc", "open/mine"];
        for file in data.iter().map(String::as_str).chain(others) {
            fs::write(path.join(file), "word\n").unwrap();
            mode(file, 0o600);
        }
        std::os::unix::fs::symlink(path.join("data/master.key"), path.join("open/symlink")).unwrap();
        fs::hard_link(path.join("data/master.key"), path.join("open/hardlink")).unwrap();
        let leaked = File::open(path.join("data/master.key")).unwrap();
        fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let other = Command::new("sleep").arg("1000").env("WORD", "secret").current_dir(path).spawn().unwrap();
        let abstract_name = format!("lockkeeper-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets =
            [UnixListener::bind_addr(&address).unwrap(), UnixListener::bind(path.join("docker.sock")).unwrap()];
        mode("docker.sock", 0o600);
        let (http, dns) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        Self { folder, other, leaked, http, dns, abstract_name, _sockets: sockets }
    }

    fn places(&self) -> HiddenPlaces {
        let place = |name: &str| self.folder.path().join(name);
        let files = ["lockkeeper.toml", "named.env", "gone"].map(place).to_vec();
        HiddenPlaces { folder: Some(place("data")), handed: Vec::new(), files }
    }

    fn plan(&self, mechanism: Mechanism) -> LaunchPlan {
        let scopes = Some(LandlockDomain::Scopes);
        let contained = LaunchPlan { unprivileged: true, domain: scopes, ..LaunchPlan::default() };
        match mechanism {
            Mechanism::Namespace => LaunchPlan { hidden: Some(self.places()), ..contained },
            Mechanism::Landlock => LaunchPlan { domain: Some(LandlockDomain::Around(self.places())), ..contained },
            Mechanism::RunAs => LaunchPlan { run_as: Some("nobody".to_owned()), ..contained },
            Mechanism::Off => LaunchPlan::default(),
        }
    }

    /// The end of a script that is run as `plan` says, and what it wrote.
    fn tried(&self, script: &str, plan: &LaunchPlan) -> (bool, String) {
        let mut command = launched(plan, script);
        command.current_dir(self.folder.path());
        command.env("OTHER", self.other.id().to_string()).env("ABSTRACT", &self.abstract_name);
        command.env("LEAKED", self.leaked.as_raw_fd().to_string());
        command.env("HTTP", self.http.local_addr().unwrap().port().to_string());
        command.env("DNS", self.dns.local_addr().unwrap().port().to_string());
        let output = command.output().unwrap();
        assert_ne!(output.status.code(), Some(126), "{}", String::from_utf8_lossy(&output.stderr));
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        self.other.kill().unwrap();
        self.other.wait().unwrap();
    }
}

/// A command that runs `script` as `plan` says.
fn launched(plan: &LaunchPlan, script: &str) -> Command {
    let mut command = Command::new(LAUNCHER);
    command.args(launcher::arguments("sh".as_ref(), plan)).args(["-c", script]).stdin(Stdio::null());
    command
}

/// Tries everything with one mechanism, whose outcomes are in this column.
fn try_all(mechanism: Mechanism, column: usize) {
    let surroundings = Surroundings::new(&format!("{mechanism:?}"));
    let plan = surroundings.plan(mechanism);
    let mut wrong = Vec::new();
    for (what, script, outcomes) in ESCAPES {
        let outcome = outcomes.split(' ').nth(column).unwrap();
        if outcome == "-" {
            continue;
        }
        let (succeeded, text) = surroundings.tried(script, &plan);
        if succeeded != (outcome == "yes") {
            wrong.push(format!("{what}: {succeeded}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{mechanism:?}:\n{}", wrong.join("\n"));
}

/// True if this machine has what a mechanism needs; says so where it has not.
#[expect(clippy::print_stderr, reason = "who reads the log learns what was not tried")]
fn is_here(mechanism: Mechanism) -> bool {
    let trial = try_out(Path::new(LAUNCHER));
    let lacks = match mechanism {
        Mechanism::Namespace => trial.no_namespace,
        _ if trial.landlock < 6 => Some(format!("Landlock {} of this kernel has no scopes", trial.landlock)),
        Mechanism::RunAs if !geteuid().is_root() => Some("only root becomes another user".to_owned()),
        _ => None,
    };
    if let Some(lacks) = &lacks {
        eprintln!("not run: {mechanism:?}: {lacks}");
    }
    lacks.is_none()
}

#[test]
fn a_program_in_a_namespace_reaches_what_the_table_says() {
    if is_here(Mechanism::Namespace) {
        try_all(Mechanism::Namespace, 0);
    }
}

#[test]
fn a_program_in_a_domain_around_the_data_reaches_what_the_table_says() {
    if is_here(Mechanism::Landlock) {
        try_all(Mechanism::Landlock, 1);
    }
}

#[test]
fn a_program_of_another_user_reaches_what_the_table_says() {
    if is_here(Mechanism::RunAs) {
        try_all(Mechanism::RunAs, 2);
    }
}

#[test]
fn a_program_that_is_not_contained_reaches_what_the_table_says() {
    try_all(Mechanism::Off, 3);
}

#[test]
fn what_programs_do_every_day_goes_on_in_each_domain() {
    if !is_here(Mechanism::Landlock) {
        return;
    }
    let surroundings = Surroundings::new("everyday");
    let everyday = "rm -rf open/a open/b && mkdir -p open/a open/b && echo x > open/a/f && mv open/a/f open/b/f && ln open/b/f open/b/g && \
                    ls . && sleep 0 & wait $! && kill -0 $$ && echo x > /dev/null && test -r /etc/passwd";
    let hidden = LaunchPlan { unprivileged: true, hidden: Some(surroundings.places()), ..LaunchPlan::default() };
    let in_domain = |domain| LaunchPlan { unprivileged: true, domain: Some(domain), ..LaunchPlan::default() };
    let one_right = LandlockDomain::OneRight;
    let mut plans = vec![in_domain(one_right), in_domain(LandlockDomain::Around(surroundings.places()))];
    if is_here(Mechanism::Namespace) {
        plans.push(LaunchPlan { domain: Some(LandlockDomain::Scopes), ..hidden });
    }
    for plan in plans {
        let (succeeded, text) = surroundings.tried(everyday, &plan);
        assert!(succeeded, "{plan:?}: {text}");
    }
    // the price of a right of files
    let (mounts, _) = surroundings
        .tried("unshare -Um true && unshare -Um sh -c 'mount --bind open home'", &in_domain(LandlockDomain::OneRight));
    assert!(!mounts);
}

#[test]
fn a_handed_folder_is_all_that_is_seen_of_the_data() {
    if !is_here(Mechanism::Namespace) {
        return;
    }
    let surroundings = Surroundings::new("handed");
    let data = surroundings.folder.path().join("data");
    let mut places = surroundings.places();
    places.handed = vec![data.join("logins")];
    let plan = LaunchPlan { unprivileged: true, hidden: Some(places), ..LaunchPlan::default() };
    let (succeeded, text) = surroundings.tried("ls data && echo token > data/logins/kept", &plan);
    assert!(succeeded && text == "logins\n", "{text}");
    assert_eq!(fs::read_to_string(data.join("logins/kept")).unwrap(), "token\n");
    assert_eq!(fs::metadata(data.join("logins")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn limits_of_a_program_are_its_own() {
    let surroundings = Surroundings::new("limits");
    let plan = LaunchPlan { open_files: Some(64), core: Some(4 << 20), ..LaunchPlan::default() };
    let (_, text) = surroundings.tried("ulimit -n; ulimit -Hn; ulimit -c", &plan);
    assert_eq!(text, "64\n64\n8192\n");
}

#[test]
fn a_plan_that_cannot_be_carried_out_starts_nothing() {
    let mark = tempfile::tempdir().unwrap();
    let script = format!("touch {}", mark.path().join("ran").display());
    let refused = |plan: &LaunchPlan| {
        let output = launched(plan, &script).output().unwrap();
        assert_eq!(output.status.code(), Some(126));
        assert!(!mark.path().join("ran").exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let nobody = LaunchPlan { run_as: Some("no-such-user".to_owned()), ..LaunchPlan::default() };
    assert!(refused(&nobody).contains("this machine has no such user"));
    let group = LaunchPlan { group: Some(PathBuf::from("/nowhere")), ..LaunchPlan::default() };
    assert!(refused(&group).contains("it cannot join its cgroup /nowhere"));
}

#[test]
fn programs_of_the_same_user_cannot_look_into_a_gateway() {
    let surroundings = Surroundings::new("gateway");
    // as root they would be kept apart by what each may do
    let plain = LaunchPlan { unprivileged: true, ..LaunchPlan::default() };
    let mut other = launched(&plain, "exec sleep 1000").env("WORD", "secret").spawn().unwrap();
    let mut gateway = launched(&plain, &format!("exec {LAUNCHER} stdio -- cat"));
    gateway.env("WORD", "secret").env("HOME", surroundings.folder.path().join("open"));
    let mut gateway = gateway.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(gateway.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("serving one client")), "it has not started");
    let reads = |id: u32, file: &str| surroundings.tried(&format!("head -c 1 /proc/{id}/{file} | grep -a ."), &plain).0;
    for file in ["environ", "maps"] {
        assert!(reads(other.id(), file), "{file} of another process can be read");
        assert!(!reads(gateway.id(), file), "{file}");
    }
    for process in [&mut gateway, &mut other] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
