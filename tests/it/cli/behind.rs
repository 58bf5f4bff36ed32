//! A gateway behind something else: a proxy, a balancer, a platform.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use insta::assert_snapshot;

use super::{lockkeeper, shown};

/// A running gateway, and its log. Dropping it kills it.
struct Served {
    process: Child,
    address: String,
    log: BufReader<ChildStderr>,
}

impl Served {
    /// Starts it in `folder`, and waits until it listens.
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"])
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| Some(line.trim().strip_prefix("Address")?.trim().to_owned())).unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Self { process, address, log }
    }

    /// The answer to these bytes, until the gateway closes the connection.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The next line of the log that has this text.
    fn logged(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended before {text}");
        }
        line
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_start_names_the_address_on_the_terminal_and_in_the_first_line_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), &[]);
    assert!(served.address.starts_with("127.0.0.1:") && !served.address.ends_with(":0"), "{}", served.address);
    let mut first = String::new();
    served.log.read_line(&mut first).unwrap();
    assert!(first.contains("starting") && first.contains("listen=127.0.0.1:0"), "{first}");
}

#[test]
fn the_health_check_needs_no_valid_file_if_the_data_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let _served = Served::start(folder.path(), &[]);
    fs::write(folder.path().join("lockkeeper.toml"), "nonsense").unwrap();
    let check = |arguments: &[&str], variables: &[(&str, &str)]| {
        lockkeeper(folder.path(), &[&["healthcheck"], arguments].concat(), variables).status.code()
    };
    assert_eq!(check(&["--data-dir", "data"], &[]), Some(0));
    assert_eq!(check(&[], &[("LOCKKEEPER_DATA_DIR", "data")]), Some(0));
    assert_eq!(check(&[], &[]), Some(2));
}

#[test]
fn a_refused_host_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), &["--public-url", "https://mcp.example.com"]);
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    for host in ["localhost:8080", "lockkeeper", "lockkeeper.default.svc.cluster.local"] {
        let answer = served.send(get("/healthz", host).as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let answer = served.send(get("/mcp", "lockkeeper.internal:8080").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("allowed_hosts"), "{answer}");
    let line = served.logged("status=421");
    assert!(line.contains("not known as lockkeeper.internal"), "{line}");
    // what is no name is not repeated
    served.send(get("/mcp", &format!("{}.example", "x".repeat(3000))).as_bytes());
    let line = served.logged("status=421");
    assert!(!line.contains("xxx"), "{line}");
}

#[test]
fn a_proxy_that_speaks_another_protocol_is_logged_with_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), &[]);
    for (first, told) in [
        (
            &b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\nGET / HTTP/1.1\r\n\r\n"[..],
            "begins with a PROXY protocol header",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "begins with TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "begins with HTTP/2"),
    ] {
        served.send(first);
        // the second one at once is not told
        served.send(first);
        let line = served.logged("a connection begins with");
        assert!(line.contains(told) && line.contains("peer=127.0.0.1"), "{line}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), &[]);
    served.send(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\x11\x22\x33\x44");
    assert!(served.logged("a connection begins with").contains("PROXY protocol header"));
}

/// Creates a key, and returns its id.
fn create(folder: &Path, arguments: &[&str]) -> String {
    let output = lockkeeper(folder, &[&["keys", "create", "--data-dir", "data"], arguments].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(folder, &output));
    String::from_utf8(output.stdout).unwrap().split('_').nth(1).unwrap().to_owned()
}

#[test]
fn private_proxies_and_keys_with_networks_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockkeeper.toml");
    fs::write(&file, "data_dir = \"data\"\n").unwrap();
    create(folder.path(), &["laptop"]);
    let id = create(folder.path(), &["office", "--network", "192.0.2.0/24"]);
    let demo = "[servers.demo]\nbuiltin = \"demo\"\n";
    fs::write(&file, format!("data_dir = \"data\"\n{demo}[http]\ntrusted_proxies = \"private\"\n")).unwrap();
    let run = |arguments: &[&str]| shown(folder.path(), &lockkeeper(folder.path(), arguments, &[])).replace(&id, "ID");
    assert_snapshot!(run(&["check"]), @r#"
    2
    --- out
    --- err
    configuration: lockkeeper.toml (found in the working directory)
    error: the configuration and the keys contradict each other
      `trusted_proxies` is "private", so anyone in a private network can claim any address, and these keys are bound to networks: ID (office)
    help: name the addresses of the proxies in `trusted_proxies`, or revoke the keys: `lockkeeper keys revoke ID`
    "#);
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    assert!(refused.starts_with("2\n") && refused.contains("bound to networks: ID (office)"), "{refused}");
    assert_snapshot!(run(&["keys", "create", "home", "--network", "198.51.100.0/24"]), @r#"
    2
    --- out
    --- err
    data: FOLDER/data
    error: nothing was created
      keys cannot be bound to networks while `trusted_proxies` is "private": anyone in a private network can claim any address
    help: name the addresses of the proxies in `trusted_proxies` and restart the gateway, or leave out `--network`
    "#);
    let service = ["clients", "create", "job", "--network", "198.51.100.0/24"];
    assert!(run(&service).starts_with("2\n"), "{}", run(&service));
    assert!(run(&["keys", "rotate", &id]).starts_with("2\n"));
    assert!(run(&["keys", "create", "phone"]).starts_with("0\n"));
    assert!(run(&["keys", "revoke", &id]).starts_with("0\n"));
    assert!(run(&["check"]).starts_with("0\n"));
    // a running gateway is as its start was, whatever the file says by now
    let _served = Served::start(folder.path(), &[]);
    fs::write(&file, "data_dir = \"data\"\n").unwrap();
    let told = run(&["keys", "create", "home", "--network", "198.51.100.0/24"]);
    assert!(told.starts_with("2\n") && told.contains("keys cannot be bound to networks"), "{told}");
}

#[test]
fn without_private_proxies_keys_have_networks_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(Served::start(folder.path(), &[]));
    fs::write(folder.path().join("private.toml"), "[http]\ntrusted_proxies = [\"private\"]\n").unwrap();
    drop(Served::start(folder.path(), &["--config", "private.toml"]));
    let bound = ["keys", "create", "office", "--network", "192.0.2.0/24", "--data-dir", "data"];
    let run = || lockkeeper(folder.path(), &bound, &[]).status.code();
    assert_eq!(run(), Some(2));
    drop(Served::start(folder.path(), &[]));
    assert_eq!(run(), Some(0));
}
