//! A scripted server on a channel of any kind, of each era: it says what its tools are called after, and writes some of it in an
//! odd way.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use http::{Method as Verb, StatusCode, request::Parts};
use lockkeeper::{
    mcp::Revision,
    model::{BackendId, BackendSpec, HttpSpec, TransportSpec},
    support::Secret,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::kit::{
    answering::{Act, AnsweringServer},
    carriers::{Carrier, Hosted},
    outlet::Piece,
    peer::{CONFIGURED, greeting, text_of},
};

const MIB: usize = 1 << 20;

/// Era of a scripted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptedEra {
    Legacy,
    Modern,
}

/// The server.
pub(super) struct ChannelServer {
    hosted: Hosted,
    inner: Arc<Inner>,
    open: Arc<AtomicUsize>,
}

/// A request over HTTP, which may be that for a WebSocket.
struct Head {
    verb: Verb,
    path: String,
    is_authorized: bool,
}

/// What it got.
struct Inner {
    /// Status of a POST to the URL of a stream.
    refusal: StatusCode,
    /// True if it forgets the session of the next message.
    forgets: AtomicBool,
    heads: Mutex<Vec<Head>>,
    messages: Mutex<Vec<Value>>,
}

// === impl ChannelServer ===

impl ChannelServer {
    pub(super) fn start(carrier: Carrier, era: ScriptedEra) -> Self {
        Self::start_refusing(carrier, era, StatusCode::NOT_FOUND)
    }

    /// Like [`ChannelServer::start`], with this status of a POST to the URL of a stream.
    pub(super) fn start_refusing(carrier: Carrier, era: ScriptedEra, refusal: StatusCode) -> Self {
        let (heads, messages) = (Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner { refusal, forgets: AtomicBool::new(false), heads, messages });
        let (judge, memory) = (Arc::clone(&inner), Arc::clone(&inner));
        let version = match era {
            ScriptedEra::Legacy => Revision::V2025_06_18,
            ScriptedEra::Modern => Revision::V2026_07_28,
        };
        let server = AnsweringServer::acting(version, move |message| {
            memory.messages.lock().push(message.clone());
            acts(carrier, era, message)
        });
        let server = server.admitting(move |request| judge.admit(request));
        let open = server.open_sessions();
        Self { hosted: Hosted::start(carrier, Arc::new(server)), inner, open }
    }

    /// The server `docs`; over HTTP with credentials.
    pub(super) fn spec(&self) -> BackendSpec {
        self.spec_as(|transport| transport)
    }

    /// The same with its address in another transport.
    pub(super) fn spec_as(&self, change: impl FnOnce(TransportSpec) -> TransportSpec) -> BackendSpec {
        let headers = BTreeMap::from([("Authorization".to_owned(), Secret::new(CONFIGURED))]);
        let with = |http: HttpSpec| HttpSpec { headers, ..http };
        let transport = match self.hosted.transport() {
            TransportSpec::Sse(http) => TransportSpec::Sse(with(http)),
            TransportSpec::WebSocket(http) => TransportSpec::WebSocket(with(http)),
            other => other,
        };
        BackendSpec::new(BackendId::parse("docs").unwrap(), change(transport))
    }

    pub(super) fn url(&self) -> &str {
        self.hosted.url()
    }

    /// The first message of which this is true.
    pub(super) fn message(&self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        self.inner.messages.lock().iter().find(|message| is_it(message)).cloned()
    }

    pub(super) fn has_got(&self, method: &str) -> Option<()> {
        self.message(|message| message["method"] == method).map(drop)
    }

    /// The number of requests over HTTP with this verb and path.
    pub(super) fn count(&self, verb: &Verb, path: &str) -> usize {
        self.inner.heads.lock().iter().filter(|head| head.verb == verb && head.path == path).count()
    }

    /// The number of requests over HTTP, and of those with credentials.
    pub(super) fn requests(&self) -> (usize, usize) {
        let heads = self.inner.heads.lock();
        (heads.len(), heads.iter().filter(|head| head.is_authorized).count())
    }

    /// Refuses the next message over HTTP for its session, whose stream stays open, as behind a proxy.
    pub(super) fn forget_a_session(&self) {
        self.inner.forgets.store(true, Ordering::Release);
    }

    pub(super) fn open_sessions(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }
}

// === impl Inner ===

impl Inner {
    fn admit(&self, request: &Parts) -> Result<(), StatusCode> {
        let is_authorized = request.headers.get("authorization").is_some_and(|value| value == CONFIGURED);
        let (verb, path) = (request.method.clone(), request.uri.path().to_owned());
        let is_message = verb == Verb::POST && request.uri.query().is_some();
        let is_refused = verb == Verb::POST && !is_message;
        self.heads.lock().push(Head { verb, path, is_authorized });
        if is_refused {
            return Err(self.refusal);
        }
        if is_message && self.forgets.swap(false, Ordering::AcqRel) {
            return Err(StatusCode::NOT_FOUND);
        }
        Ok(())
    }
}

/// What the server does at a message: its answers, and what the called tool writes around them.
fn acts(carrier: Carrier, era: ScriptedEra, message: &Value) -> Vec<Act> {
    let raw = |bytes: &[u8]| Act::Write(Piece::Raw(bytes.to_vec().into()));
    let mut acts = match (carrier, message["params"]["name"].as_str().unwrap_or_default()) {
        (_, "close") => return vec![Act::End],
        // a part of an event, then nothing
        (_, "cut") => return vec![raw(b"data: {\"jsonrpc\":"), Act::End],
        (Carrier::WebSocket, "noise") => noisy_frames(),
        (Carrier::Sse, "noise") => {
            vec![raw("\u{feff}: a comment\n\nevent: ping\ndata: 1\n\ndata: no message\n\ndata:\n\n".as_bytes())]
        }
        (Carrier::Sse, "comments") => {
            vec![raw(b": ping - 2026-01-01\r\n\r\n:\n\n: \n\nevent: ping\ndata:\n\ndata:\n\nid: 7\n\nretry: 9\n\n")]
        }
        (_, "noise") => vec![raw("\u{feff}ready\n\n\u{0}\n{\"half\": \n".as_bytes())],
        (_, "big") => {
            let params = json!({ "data": "x".repeat(10 * MIB) });
            vec![Act::Say(json!({ "method": "notifications/message", "params": params }))]
        }
        (_, "pings") => (0..200).map(|_| Act::Write(Piece::Frame(Frame::Ping(Vec::new().into())))).collect(),
        (Carrier::WebSocket, "flood") => vec![Act::Write(Piece::Line(vec![b'x'; 17 * MIB].into()))],
        _ => Vec::new(),
    };
    acts.extend(answers(era, message).iter().flat_map(|answer| written(carrier, answer)));
    if carrier == Carrier::Sse && message["params"]["name"] == "flood" {
        acts.push(raw(b"data: "));
        acts.extend((0..17).map(|_| raw(&vec![b'x'; MIB])));
    }
    acts
}

fn noisy_frames() -> Vec<Act> {
    let frames = [
        Piece::Line("no message".into()),
        Piece::Line("".into()),
        Piece::Frame(Frame::Binary(vec![0xff, 0x00].into())),
        Piece::Frame(Frame::Ping(vec![1].into())),
        Piece::Line("{\"jsonrpc\":".into()),
    ];
    frames.map(Act::Write).into()
}

/// A message with both bytes at the end of each line, and byte by byte where there are only lines.
fn written(carrier: Carrier, message: &Value) -> Vec<Act> {
    match carrier {
        Carrier::Sse => {
            vec![Act::Write(Piece::Raw(format!("event: message\r\ndata: {message}\r\n\r\n").into()))]
        }
        Carrier::WebSocket => vec![Act::Write(Piece::Line(message.to_string().into()))],
        _ => {
            let bytes = format!("{message}\r\n").into_bytes();
            bytes.into_iter().map(|byte| Act::Write(Piece::Part(vec![byte].into()))).collect()
        }
    }
}

/// The server's messages in answer to one.
fn answers(speaks: ScriptedEra, message: &Value) -> Vec<Value> {
    let result = |result: &Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let error =
        |code: i64| json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": code, "message": "no" } });
    let params = &message["params"];
    let token = &params["_meta"]["progressToken"];
    match (message["method"].as_str(), speaks) {
        (Some("initialize"), ScriptedEra::Legacy) => vec![result(&greeting("2025-06-18"))],
        (Some("server/discover"), ScriptedEra::Modern) => vec![result(&json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "7" } },
        }))],
        (Some("tools/call"), _) if params["name"] == "silent" => Vec::new(),
        (Some("tools/call"), _) if params["name"] == "ask" => vec![json!({
            "jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": { "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } },
        })],
        (Some("tools/call"), _) => {
            let progress = json!({ "progressToken": token, "progress": 1 });
            let mut answers = vec![result(&text_of("over a channel"))];
            if !token.is_null() {
                let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
                answers.insert(0, told);
            }
            answers
        }
        (Some(_), _) if message.get("id").is_some() => vec![error(-32601)],
        _ => Vec::new(),
    }
}
