//! Hostile JSON in both directions through the whole application: forwarded byte for byte, or refused, and the gateway
//! goes on.

use std::sync::{Arc, Mutex};

use http::StatusCode;

use super::{Events, Gateway, client};
use crate::{
    kit::peer::{Peer, Response, Seen, json_of},
    support::data_folder::DataFolder,
};

/// The `tools/call` messages that the server got, and its structured content.
type Heard = Arc<Mutex<(Vec<String>, String)>>;

/// A server that handles text and does not parse JSON.
struct Server {
    heard: Heard,
    peer: Peer,
}

/// A session of a client over HTTP+SSE.
struct Session {
    gateway: Gateway,
    address: String,
    events: Events,
}

impl Server {
    async fn start() -> Self {
        let heard = Heard::default();
        let script = Arc::clone(&heard);
        Self { peer: Peer::start(move |seen| answer(&script, seen)).await, heard }
    }

    /// The only call that arrived.
    fn heard(&self) -> String {
        let calls = std::mem::take(&mut self.heard.lock().unwrap().0);
        assert_eq!(calls.len(), 1);
        calls.into_iter().next().unwrap()
    }
}

fn answer(heard: &Heard, seen: &Seen) -> Option<Response> {
    let text = String::from_utf8(seen.text.to_vec()).unwrap();
    let id = |text: &str| {
        let rest = text.split_once(r#""id":"#).unwrap().1;
        rest[..rest.find([',', '}']).unwrap()].to_owned()
    };
    let result = if text.contains(r#""method":"initialize""#) {
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"text","version":"1"}}"#
            .to_owned()
    } else if text.contains(r#""method":"tools/list""#) {
        r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#.to_owned()
    } else if text.contains(r#""method":"tools/call""#) {
        let mut heard = heard.lock().unwrap();
        heard.0.push(text.clone());
        heard.1.clone()
    } else {
        return None;
    };
    Some(json_of(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id(&text))))
}

impl Session {
    /// A session in `version` with `server`.
    async fn open(folder: &std::path::Path, server: &Server, version: &str) -> Self {
        let config = format!("[servers.text]\nera = \"legacy\"\nurl = \"{}\"\n", server.peer.url());
        std::fs::write(folder.join("lockkeeper.toml"), config).unwrap();
        let gateway = Gateway::start(folder).await;
        let key = gateway.first_key.clone().unwrap();
        let mut events = Events { response: gateway.get("/sse/text", Some(key.expose())).await, text: String::new() };
        let address = format!("{}{}&api_key={}", gateway.url, events.next("endpoint").await, key.expose());
        let mut session = Self { gateway, address, events };
        session.post(format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#)).await;
        session.events.next("message").await;
        session.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()).await;
        session
    }

    async fn post(&self, text: String) -> StatusCode {
        let request = client().post(&self.address).header("content-type", "application/json");
        request.body(text).send().await.unwrap().status()
    }

    /// The answer to a call with this argument: the status, and the body if there is one.
    async fn call(&mut self, argument: &str) -> (StatusCode, Option<String>) {
        let status = self
            .post(format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":{argument}}}}}}}"#
            ))
            .await;
        let answer = if status.is_success() { Some(self.events.next("message").await) } else { None };
        (status, answer)
    }
}

/// Texts that a value parser would change, or that would overflow a recursive one.
fn odd() -> Vec<String> {
    let deep = |open: &str, close: &str, levels| format!("{}0{}", open.repeat(levels), close.repeat(levels));
    vec![
        "1e400".to_owned(),
        "-0.0".to_owned(),
        "123456789012345678901234567890.000000000000000000001".to_owned(),
        r#""\ud800""#.to_owned(),
        r#""\u0000\u2028""#.to_owned(),
        r#"{"k":1,"k":2,"":3}"#.to_owned(),
        deep("[", "]", 1_000),
        deep(r#"{"d":"#, "}", 1_000),
        deep("[", "]", 100_000),
        format!("[{}0]", "0,".repeat(500_000)),
        format!("\"{}\"", "x".repeat(10 << 20)),
    ]
}

#[tokio::test]
async fn odd_json_crosses_byte_for_byte_in_both_directions() {
    let (folder, server) = (DataFolder::new(), Server::start().await);
    // the server is newer than the client, so the translation steps run
    let mut session = Session::open(folder.path(), &server, "2024-11-05").await;
    for odd in odd() {
        let begin = &odd[..odd.len().min(60)];
        // this client gets structured content as text too, which doubles its size
        let result = format!(r#"{{"content":[],"structuredContent":{{"v":{odd}}}}}"#);
        server.heard.lock().unwrap().1 = result;
        let (status, answer) = session.call(&odd).await;
        assert!(status.is_success(), "{begin}: {status}");
        let whole = server.heard().contains(&format!(r#"{{"a":{odd}}}"#));
        assert!(whole, "{begin} did not reach the server as it was");
        let (answer, member) = (answer.unwrap(), format!(r#""structuredContent":{{"v":{odd}}}"#));
        let back = answer.contains(&member);
        assert!(back, "{begin} did not come back as it was: {}", &answer[..answer.len().min(300)]);
    }
    session.gateway.stop().await;
}

#[tokio::test]
async fn invalid_or_oversized_json_is_refused_and_the_session_goes_on() {
    let (folder, server) = (DataFolder::new(), Server::start().await);
    let mut session = Session::open(folder.path(), &server, "2025-11-25").await;
    let good = r#"{"content":[{"type":"text","text":"well"}]}"#;
    good.clone_into(&mut server.heard.lock().unwrap().1);
    for (odd, refused) in [
        ("[1,]".to_owned(), StatusCode::BAD_REQUEST),
        ("\"\u{1}\"".to_owned(), StatusCode::BAD_REQUEST),
        ("NaN".to_owned(), StatusCode::BAD_REQUEST),
        ("[".repeat(100_000), StatusCode::BAD_REQUEST),
        (format!("\"{}\"", "x".repeat(16 << 20)), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let begin = odd[..odd.len().min(60)].to_owned();
        assert_eq!(session.call(&odd).await, (refused, None), "{begin}");
        assert!(server.heard.lock().unwrap().0.is_empty(), "{begin} reached the server");
    }
    // a server's own answer may be as bad: its call fails, the next one does not
    for odd in [r#"{"content":[1,]}"#.to_owned(), "]".to_owned(), "[".repeat(100_000), "\"\u{1}\"".to_owned()] {
        server.heard.lock().unwrap().1.clone_from(&odd);
        let answer = session.call("1").await.1.unwrap();
        assert!(answer.contains(r#""id":7,"error":{"code":-32603"#), "{}: {answer}", &odd[..odd.len().min(20)]);
        server.heard();
        good.clone_into(&mut server.heard.lock().unwrap().1);
        assert!(session.call("1").await.1.unwrap().contains("well"));
        server.heard();
    }
    session.gateway.stop().await;
}
