//! The listening socket that a service manager passes, as systemd does it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

/// Ends a hang.
const SOON: Duration = Duration::from_mins(1);

/// A service manager with one socket.
struct Manager {
    folder: TempDir,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Manager {
    /// One that passes a socket of this kind to `lockkeeper serve` with these arguments.
    fn of(kind: &str, arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/passed_socket.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([kind, folder.path().to_str().unwrap(), env!("CARGO_BIN_EXE_lockkeeper"), "serve"])
            .args(["--data-dir", folder.path().join("data").to_str().unwrap()])
            .args(arguments)
            .current_dir(folder.path())
            .env_remove("LOCKKEEPER_LISTEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut manager = Self { folder, child, input, output, port: 0 };
        manager.port = manager.told().parse().unwrap();
        manager
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn told(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the gateway printed and logged.
    fn printed(&self) -> String {
        fs::read_to_string(self.file("output")).unwrap_or_default()
    }

    /// A request that waits for its answer.
    fn request(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").unwrap();
        stream
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(mut to: TcpStream) -> String {
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn connections_wait_in_a_passed_socket_while_the_gateway_restarts() {
    let mut manager = Manager::of("loopback", &["--listen", "127.0.0.1:1"]);
    for _ in 0..2 {
        let waits = manager.request();
        manager.say("start");
        assert_eq!(answer(waits), "HTTP/1.1 200 OK");
        manager.say("stop");
        assert_eq!(manager.told(), "0");
    }
    let (printed, port) = (manager.printed(), manager.port);
    assert!(printed.contains(&format!("http://127.0.0.1:{port}/mcp")), "{printed}");
    let notice =
        format!("listen: 127.0.0.1:1 has no effect, since systemd passes a socket that listens on 127.0.0.1:{port}");
    assert!(printed.contains(&notice), "{printed}");
}

#[test]
fn programs_get_nothing_of_a_passed_socket() {
    let server = "ls -l /proc/$$/fd >seen; env >>seen; echo all >>seen; exec cat >/dev/null";
    let mut manager = Manager::of("loopback", &["--", "sh", "-c", server]);
    manager.say("start");
    assert_eq!(answer(manager.request()), "HTTP/1.1 200 OK");
    let begun = tokio::time::Instant::now();
    let seen = loop {
        let seen = fs::read_to_string(manager.file("seen")).unwrap_or_default();
        if seen.ends_with("all\n") {
            break seen;
        }
        assert!(begun.elapsed() < SOON, "the program was not started: {}", manager.printed());
        std::thread::yield_now();
    };
    manager.say("stop");
    assert_eq!(manager.told(), "0");
    // its standard input and output are sockets of its own
    assert_eq!(seen.matches(" -> socket:").count(), 2, "{seen}");
    assert!(!seen.contains(" 3 -> socket:"), "{seen}");
    assert!(!seen.contains("LISTEN_"), "{seen}");
}

#[test]
fn a_socket_that_cannot_be_used_ends_the_start_with_the_remedy() {
    let (failed, usage) = ("1", "2");
    for (kind, exit, expected) in [
        ("two", failed, "there is more than one for clients"),
        ("unix", failed, "one of them is not a listening TCP socket"),
        ("everywhere", usage, "is reachable from other machines"),
    ] {
        let mut manager = Manager::of(kind, &[]);
        manager.say("start");
        manager.say("wait");
        assert_eq!(manager.told(), exit, "{kind}: {}", manager.printed());
        let printed = manager.printed();
        assert!(printed.contains(expected), "{kind}: {printed}");
        assert!(kind == "everywhere" || printed.contains("as in deploy/"), "{printed}");
    }
}

#[test]
fn a_socket_for_another_process_is_left_alone() {
    let mut manager = Manager::of("other", &["--listen", "127.0.0.1:0"]);
    manager.say("start");
    let begun = tokio::time::Instant::now();
    while !manager.printed().contains("/mcp") {
        assert!(begun.elapsed() < SOON, "{}", manager.printed());
        std::thread::yield_now();
    }
    assert!(!manager.printed().contains(&format!(":{}/mcp", manager.port)), "{}", manager.printed());
    manager.say("stop");
    assert_eq!(manager.told(), "0");
}
