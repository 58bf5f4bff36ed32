//! The memory budget of the whole application: what one user leaves unfinished or unread, and the calls of another.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Gateway, client, made_key};
use crate::support::{data_folder::DataFolder, in_time};

const MIB: usize = 1 << 20;

/// A call of `echo` with a text of so many bytes: the head and the body.
fn echo(key: &str, length: usize) -> (String, String) {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"echo","arguments":{{"message":"{}"}},"_meta":{meta}}}"#, "x".repeat(length));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let head = format!(
        "POST /mcp/demo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

/// A connection on which this much of a call has been sent.
async fn begun(gateway: &Gateway, (head, body): &(String, String), part: usize) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // the gateway may refuse it before it is sent
    let _ = in_time("the gateway reads a body, or refuses it", stream.write_all(&body.as_bytes()[..part])).await;
    stream
}

async fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    in_time("a status", stream.read_exact(&mut line)).await.unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// Calls and reads the whole answer, which is a stream if it takes long.
async fn answered(gateway: &Gateway, key: &str, length: usize) {
    let (head, body) = echo(key, length);
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": ")).filter(|(name, _)| *name != "host");
    let request = client().post(format!("{}/mcp/demo", gateway.url)).body(body);
    let request = fields.fold(request, |request, (name, value)| request.header(name, value));
    let read = async { request.send().await.unwrap().text().await.unwrap() };
    let answer = in_time(format!("an answer of {length} bytes"), read).await;
    assert!(answer.contains(&"x".repeat(length)), "{length}: {}", &answer[..answer.len().min(500)]);
}

#[tokio::test]
async fn what_a_user_leaves_unfinished_or_unread_costs_nobody_else_a_call() {
    let folder = DataFolder::new();
    let config = "[limits]\nmemory = \"16MiB\"\n\n[servers.demo]\nbuiltin = \"demo\"\n";
    std::fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let [hostile, ann] = ["hostile", "ann"].map(|user| made_key(folder.path(), &["--direct", "--user", user]));
    // bodies that never end: what they hold is the user's, and beyond a share it is refused
    let call = echo(&hostile, 4 * MIB);
    let mut unfinished = Vec::new();
    for _ in 0..3 {
        unfinished.push(begun(&gateway, &call, call.1.len() - 1).await);
    }
    let mut refused = begun(&gateway, &call, call.1.len()).await;
    assert_eq!(status(&mut refused).await, "503");
    // the calls of another find room in what is kept for those who hold little
    for length in [1, 64 << 10, MIB / 2] {
        answered(&gateway, &ann, length).await;
    }
    // so do they while answers are not read
    let (mut unread, call) = (Vec::new(), echo(&hostile, 2 * MIB));
    for _ in 0..8 {
        unread.push(begun(&gateway, &call, call.1.len()).await);
    }
    for _ in 0..4 {
        answered(&gateway, &ann, 64 << 10).await;
    }
    drop((unfinished, unread));
    gateway.stop().await;
}
