//! Connections of the whole application on real sockets: too many of them, and answers before the body was read.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use lockkeeper::{app::ControlFile, listener::descriptors};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Gateway, made_key};
use crate::support::data_folder::DataFolder;

/// A gateway in a separate process, with few file descriptors.
struct Limited(Child);

impl Limited {
    /// Starts it with at most `descriptors` open files, and waits until it listens.
    async fn start(data: &Path, descriptors: u32) -> (Self, String) {
        let script = format!("ulimit -n {descriptors}; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir \"$1\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_lockkeeper")]).arg(data).current_dir(data);
        let child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let address = loop {
            if let Some(control) = ControlFile::read(data).unwrap() {
                break control.url.trim_start_matches("http://").to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        (Self(child), address)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The head of a response, and its body of the announced length.
async fn answer(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (head, body)
}

fn address(gateway: &Gateway) -> &str {
    gateway.url.trim_start_matches("http://")
}

#[tokio::test]
async fn connections_with_slow_request_heads_block_nobody() {
    descriptors::raise();
    let folder = DataFolder::new();
    let (gateway, address) = Limited::start(folder.path(), 1024).await;
    let mut trickling = Vec::new();
    for _ in 0..1100 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
        trickling.push(stream);
    }
    for _ in 0..20 {
        let mut client = TcpStream::connect(&address).await.unwrap();
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let (head, _) = answer(&mut client).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        trickling.push(client);
    }
    drop(gateway);
}

#[tokio::test]
async fn a_connection_stays_usable_after_an_answer_before_its_body() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let mut client = TcpStream::connect(address(&gateway)).await.unwrap();
    for _ in 0..20 {
        client.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n").await.unwrap();
        let (head, _) = answer(&mut client).await;
        assert!(head.starts_with("http/1.1 401") && !head.contains("connection: close"), "{head}");
        client.write_all(&[b' '; 40]).await.unwrap();
        let discovery = "GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(discovery.as_bytes()).await.unwrap();
        let (head, _) = answer(&mut client).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
    }
    drop(client);
    gateway.stop().await;
}

#[tokio::test]
async fn the_refusal_of_a_large_body_reaches_a_client_that_writes_first() {
    let folder = DataFolder::new();
    for (limit, status) in [("64MiB", "401"), ("1MiB", "413")] {
        let config = format!("[limits]\nrequest_body = \"{limit}\"\n");
        std::fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let gateway = Gateway::start(folder.path()).await;
        for authorization in ["", "authorization: Bearer wrong\r\n"] {
            let mut client = TcpStream::connect(address(&gateway)).await.unwrap();
            let head =
                format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{authorization}content-length: 20971520\r\n\r\n");
            client.write_all(head.as_bytes()).await.unwrap();
            for _ in 0..20 {
                client.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
            }
            let (head, body) = answer(&mut client).await;
            assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
            assert!(head.contains("connection: close") && body.ends_with(b"}"), "{head}");
        }
        gateway.stop().await;
    }
}

/// Opens a stream of HTTP+SSE with this key; the head of the answer.
async fn stream(gateway: &Gateway, key: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address(gateway)).await.unwrap();
    let request = format!(
        "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn a_user_with_many_streams_leaves_connections_for_others() {
    let folder = DataFolder::new();
    std::fs::write(folder.path().join("lockkeeper.toml"), "[limits]\nconnections = 16\n").unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let [hostile, ann] = ["hostile", "ann"].map(|user| made_key(folder.path(), &["--direct", "--user", user]));
    let mut open = Vec::new();
    for _ in 0..14 {
        let (stream, head) = stream(&gateway, &hostile).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        open.push(stream);
    }
    let (_refused, head) = stream(&gateway, &hostile).await;
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after"), "{head}");
    let (_hers, head) = stream(&gateway, &ann).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    drop(open);
    gateway.stop().await;
}
