//! The examination of a server for the well-known clients, as it is printed.

use std::net::TcpListener;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{lockkeeper, shown};

/// The URL of a port at which nobody listens.
fn nobody() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("http://127.0.0.1:{port}/mcp")
}

#[test]
fn a_server_that_is_not_there_is_reported_once_for_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    let url = nobody();
    let output = lockkeeper(folder.path(), &["doctor", &url], &[]);
    let text = shown(folder.path(), &output).replace(&url, "URL");
    assert_snapshot!(text, @r"
    1
    --- out
    --- err
    examining for 17 clients; each registers once, if registration is open (--no-register: none does)
    error: URL: it cannot be reached (Connection refused (os error 111))
    help: check the address, the certificate and that it answers within 10 s
    ");
}

#[test]
fn the_same_is_printed_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let url = nobody();
    let output = lockkeeper(folder.path(), &["doctor", &url, "--client", "gemini", "--no-register", "--json"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = json!({
        "severity": "blocks", "at": url, "problem": "it cannot be reached (Connection refused (os error 111))",
        "advice": "check the address, the certificate and that it answers within 10 s",
    });
    let client = json!({ "id": "gemini", "name": "Gemini CLI", "verdict": "fails", "findings": [finding] });
    assert_eq!(printed, json!({ "url": url, "clients": [client] }));
}

#[test]
fn wrong_usage_is_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [["doctor", "mcp.example.com", "--json"], ["doctor", "https://a.example/mcp", "--client=emacs"]] {
        let output = lockkeeper(folder.path(), &arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", shown(folder.path(), &output));
        assert!(output.stdout.is_empty());
    }
    let output = lockkeeper(folder.path(), &["doctor", "mcp.example.com"], &[]);
    let text = shown(folder.path(), &output);
    assert!(text.contains("give the URL of the MCP server, such as `https://mcp.example.com/mcp`"), "{text}");
}

#[test]
fn a_machine_without_certificates_of_authorities_examines_what_shows_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("none.pem"), "").unwrap();
    let url = nobody();
    let output = lockkeeper(folder.path(), &["doctor", &url, "--client", "gemini"], &[("SSL_CERT_FILE", "none.pem")]);
    let text = shown(folder.path(), &output);
    assert!(text.contains("it cannot be reached (Connection refused"), "{text}");
}
