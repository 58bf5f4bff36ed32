//! A server over Streamable HTTP that writes its answers to the tool `trouble` byte by byte. Knows nothing of what they
//! mean.

use std::{io, sync::Arc, time::Duration};

use lockkeeper::model::{HttpSpec, TransportSpec};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A step of an answer.
pub(super) enum Step {
    Write(Vec<u8>),
    /// One byte after another, with a pause between them.
    Drip(Vec<u8>),
    /// Ends the connection in order.
    Close,
    /// Ends the connection with a reset.
    Reset,
    /// Leaves the connection open and says nothing more.
    Silence,
}

/// The steps of the answer to a call, by the id of its request and the number of calls before it.
pub(super) type Script = fn(&Value, usize) -> Vec<Step>;

/// The server.
pub(super) struct RawHttp {
    pub(super) port: u16,
    _served: JoinSet<()>,
}

impl RawHttp {
    pub(super) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut served = JoinSet::new();
        let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        served.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let calls = Arc::clone(&calls);
                connections.spawn(async move {
                    let _ = serve(BufReader::new(stream), script, &calls).await;
                });
            }
        });
        Self { port, _served: served }
    }

    pub(super) fn transport(&self) -> TransportSpec {
        TransportSpec::Http(HttpSpec::new(format!("http://127.0.0.1:{}/mcp", self.port).parse().unwrap()))
    }
}

/// The verb and the message of the next request.
async fn request(stream: &mut BufReader<TcpStream>) -> io::Result<(String, Value)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if stream.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let verb = head.split(' ').next().unwrap_or_default().to_owned();
    Ok((verb, serde_json::from_slice(&body).unwrap_or_default()))
}

async fn serve(
    mut stream: BufReader<TcpStream>,
    script: Script,
    calls: &std::sync::atomic::AtomicUsize,
) -> io::Result<()> {
    loop {
        let (verb, message) = request(&mut stream).await?;
        let id = &message["id"];
        let steps = match (verb.as_str(), message["method"].as_str().unwrap_or_default()) {
            ("GET", _) => vec![Step::Write(answer("405 Method Not Allowed", "", b""))],
            ("POST", "server/discover") => {
                let info = json!({ "io.modelcontextprotocol/serverInfo": { "name": "raw", "version": "1" } });
                let result = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private", "_meta": info });
                vec![Step::Write(answer("200 OK", "", &result_of(id, &result)))]
            }
            ("POST", "initialize") => {
                let capabilities = json!({ "tools": {} });
                let info = json!({ "name": "raw", "version": "1" });
                let result =
                    json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info });
                vec![Step::Write(answer("200 OK", "Mcp-Session-Id: s\r\n", &result_of(id, &result)))]
            }
            ("POST", "tools/list") => {
                let tools =
                    ["look", "trouble"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                let result = json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" });
                vec![Step::Write(answer("200 OK", "", &result_of(id, &result)))]
            }
            ("POST", "tools/call") if message["params"]["name"] == "trouble" => {
                script(id, calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
            }
            ("POST", "tools/call") => vec![Step::Write(answer("200 OK", "", &text(id, "looked")))],
            _ => vec![Step::Write(answer("202 Accepted", "", b""))],
        };
        for step in steps {
            match step {
                Step::Write(bytes) => stream.write_all(&bytes).await?,
                Step::Drip(bytes) => {
                    for byte in bytes {
                        stream.write_all(&[byte]).await?;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Step::Close => return stream.shutdown().await,
                Step::Reset => {
                    // what was written is read first
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return stream.get_ref().set_zero_linger();
                }
                Step::Silence => std::future::pending().await,
            }
        }
    }
}

/// A whole response with a JSON body.
pub(super) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let head = format!("HTTP/1.1 {status}\r\n{kind}{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A response with these bytes of an event stream, which ends with the connection.
pub(super) fn stream(bytes: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", bytes].concat()
}

/// The result of a tool with this text, for servers of each era: older ones may add members.
pub(super) fn text(id: &Value, text: &str) -> Vec<u8> {
    result_of(id, &json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] }))
}

fn result_of(id: &Value, result: &Value) -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string().into_bytes()
}
