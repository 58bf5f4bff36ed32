//! The gateway with TLS of its own, with a certificate in files. `tests/tls/run` has an authority.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
};

use lockkeeper::app::{ControlFile, connect_local_socket};
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::made_key;
use crate::{
    kit::gateway::Gateway,
    support::{data_folder::DataFolder, in_time},
};

/// Writes a certificate for 127.0.0.1 that signs itself, and a configuration with it.
fn secured(folder: &Path) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(folder.join("chain.pem"), certificate.pem()).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    let tls = "[tls]\ncert_file = \"chain.pem\"\nkey_file = \"key.pem\"\nhttp_listen = false\n";
    fs::write(folder.join("lockkeeper.toml"), format!("{tls}[servers.demo]\nbuiltin = \"demo\"\n")).unwrap();
    Certificate::from_der(certificate.der()).unwrap()
}

fn trusting(certificate: Certificate) -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_trust_the_certificate_call_over_https() {
    let folder = DataFolder::new();
    let client = trusting(secured(folder.path()));
    let gateway = Gateway::start(folder.path()).await;
    assert!(gateway.url.starts_with("https://127.0.0.1:"), "{}", gateway.url);
    let endpoint = format!("{}/mcp", gateway.url);
    let refused = client.post(&endpoint).header("content-type", "application/json").body("{}").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.headers()["www-authenticate"].to_str().unwrap().contains("resource_metadata=\"https://127.0.0.1:"));
    let key = made_key(folder.path(), &["--direct"]);
    // larger than what a socket takes at once
    let message = "x".repeat(8 << 20);
    let call = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "demo__echo", "arguments": { "message": message },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} } } });
    let request = client.post(&endpoint).bearer_auth(&key).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    let answer = request.header("mcp-name", "demo__echo").body(call.to_string()).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(in_time("a large answer", answer.text()).await.unwrap().contains(&message));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_speaks_http_without_tls_is_told_so() {
    let folder = DataFolder::new();
    secured(folder.path());
    let gateway = Gateway::start(folder.path()).await;
    let mut stream = TcpStream::connect(gateway.url.trim_start_matches("https://")).await.unwrap();
    stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    let mut answer = String::new();
    in_time("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("use a URL with https://\n"), "{answer}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_this_machine_need_no_certificate() {
    let folder = DataFolder::new();
    secured(folder.path());
    let gateway = Gateway::start(folder.path()).await;
    let control = ControlFile::read(folder.path()).unwrap().unwrap();
    let path = control.socket.unwrap();
    let asked = path.clone();
    let ask = move |target: &str, host: &str| {
        let mut stream = connect_local_socket(&asked).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let asked = tokio::task::spawn_blocking(move || {
        [ask("/healthz", "localhost"), ask("/metrics", "localhost"), ask("/api/status", "localhost")]
    });
    let [health, metrics, status] = in_time("the answers", asked).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
    assert!(status.starts_with("HTTP/1.1 401 "), "the folder alone opens it: {status}");
    gateway.stop().await;
    assert!(!path.exists(), "the socket is gone with the gateway");
}
