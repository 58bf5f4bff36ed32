//! A server with one fault. The tool `look` answers, the tool `trouble` brings on the fault of a mode that is about calls. It
//! has sessions, or is one of 2026-07-28.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::kit::{
    carriers::{Actor, Program, Received, Session},
    outlet::{Outlet, Piece},
};

/// Time between two messages of a server that goes on and on.
const OFTEN: Duration = Duration::from_millis(10);

/// The server.
pub(super) struct Sick {
    mode: String,
    is_modern: bool,
    program: Program,
    /// Lets it answer a call that is late.
    late: CancellationToken,
    /// The changes of its tools in all its sessions.
    changes_in_calls: Arc<AtomicU64>,
}

/// One of its sessions, or connections.
struct Patient {
    mode: String,
    is_modern: bool,
    aside: Outlet,
    late: CancellationToken,
    changes: AtomicU64,
    changes_in_calls: Arc<AtomicU64>,
    is_deaf: AtomicBool,
    end: CancellationToken,
}

// === impl Sick ===

impl Sick {
    /// A server with this mode; `at_end` is what its program does at its end.
    pub(super) fn new(mode: &str, is_modern: bool, (at_end, late): (String, CancellationToken)) -> Self {
        let program = Program {
            at_end,
            last_words: "no key, no start".to_owned(),
            outlives: mode == "closes its output",
            stubborn: mode == "ignores TERM",
            ..Program::default()
        };
        Self { mode: mode.to_owned(), is_modern, program, late, changes_in_calls: Arc::default() }
    }
}

impl Actor for Sick {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        let end = CancellationToken::new();
        if self.mode == "exits at start" {
            end.cancel();
        }
        Arc::new(Patient {
            mode: self.mode.clone(),
            is_modern: self.is_modern,
            aside,
            late: self.late.clone(),
            changes: AtomicU64::new(0),
            changes_in_calls: Arc::clone(&self.changes_in_calls),
            is_deaf: AtomicBool::new(false),
            end,
        })
    }

    fn has_sessions(&self) -> bool {
        !self.is_modern
    }

    fn program(&self) -> Program {
        self.program.clone()
    }
}

// === impl Patient ===

impl Session for Patient {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let stops = self.mode == "stops reading" && received.message["params"]["name"] == "trouble";
        self.is_deaf.fetch_or(stops, Ordering::Relaxed);
        let end = self.end.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = self.handle(&received.message, &outlet) => {}
                () = received.gone.cancelled() => {}
            }
        })
    }

    fn misused(&self, _: &str) {}

    fn is_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::Relaxed)
    }

    fn end(&self) -> &CancellationToken {
        &self.end
    }
}

impl Patient {
    fn is(&self, mode: &str) -> bool {
        self.mode == mode
    }

    async fn handle(&self, message: &Value, outlet: &Outlet) {
        let (method, id, params) = (message["method"].as_str().unwrap_or_default(), &message["id"], &message["params"]);
        match method {
            "server/discover" if self.is_modern => self.introduce(id, params, outlet).await,
            "initialize" if !self.is_modern => self.introduce(id, params, outlet).await,
            "subscriptions/listen" if self.is_modern => self.listen(id, params, outlet).await,
            "notifications/initialized" if self.is("changes its tools") => {
                self.change_always(Value::Null, &self.aside).await;
            }
            "notifications/initialized" if self.is("prints text") => self.print_always(&self.aside).await,
            "tools/list" => self.list(id, params, outlet).await,
            "tools/call" if params["name"] == "trouble" => self.trouble(id, outlet).await,
            "tools/call" => self.result(id, text("looked"), outlet).await,
            _ if !id.is_null() && !method.is_empty() => {
                let error = json!({ "code": -32601, "message": format!("Method not found: {method}") });
                outlet.answer(json!({ "id": id, "error": error }), StatusCode::OK).await;
            }
            _ => {}
        }
    }

    async fn result(&self, id: &Value, mut result: Value, outlet: &Outlet) {
        if self.is_modern && result.is_object() {
            result["resultType"] = "complete".into();
        }
        outlet.answer(json!({ "id": id, "result": result }), StatusCode::OK).await;
    }

    async fn introduce(&self, id: &Value, params: &Value, outlet: &Outlet) {
        match self.mode.as_str() {
            "exits in the handshake" => return self.end.cancel(),
            "never answers the handshake" => return std::future::pending().await,
            "prints a banner" => drop(outlet.write(Piece::Part(Bytes::from_static(b"Ready {v1}: "))).await),
            "prints text" => print("Welcome to the server!\n{not json\n", outlet).await,
            "writes null" => print("null\n[]\n7\n\"text\"", outlet).await,
            _ => {}
        }
        let (capabilities, about) =
            (json!({ "tools": { "listChanged": true } }), json!({ "name": "sick", "version": "1" }));
        let result = if self.is_modern {
            let about = json!({ "io.modelcontextprotocol/serverInfo": about });
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": about, "ttlMs": 0,
                "cacheScope": "private" })
        } else {
            json!({ "protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": about })
        };
        self.result(id, result, outlet).await;
        if self.is_modern && self.is("prints text") {
            self.print_always(outlet).await;
        }
    }

    /// Until the session ends.
    async fn print_always(&self, outlet: &Outlet) {
        loop {
            print("INFO still here", outlet).await;
            tokio::time::sleep(OFTEN).await;
        }
    }

    async fn change_always(&self, params: Value, outlet: &Outlet) {
        loop {
            self.changes.fetch_add(1, Ordering::Relaxed);
            let mut changed = json!({ "method": "notifications/tools/list_changed" });
            if !params.is_null() {
                changed["params"] = params.clone();
            }
            outlet.message(changed).await;
            tokio::time::sleep(OFTEN).await;
        }
    }

    async fn listen(&self, id: &Value, params: &Value, outlet: &Outlet) {
        let about = json!({ "io.modelcontextprotocol/subscriptionId": id });
        let granted = json!({ "notifications": params["notifications"], "_meta": about });
        outlet.message(json!({ "method": "notifications/subscriptions/acknowledged", "params": granted })).await;
        if self.is("changes its tools") {
            self.change_always(json!({ "_meta": about }), outlet).await;
        }
        std::future::pending::<()>().await;
    }

    async fn list(&self, id: &Value, params: &Value, outlet: &Outlet) {
        let mut tools = vec![tool("look"), tool("trouble")];
        let mut next = Value::Null;
        match self.mode.as_str() {
            "loops its cursor" => {
                let cursor = params["cursor"].as_str();
                let at = if cursor == Some("a") { "b" } else { "a" };
                if cursor.is_some() {
                    tools = vec![tool(&format!("page_{at}"))];
                }
                next = at.into();
            }
            "repeats its cursor" => next = "same".into(),
            "lists many" => tools.extend((0..9998).map(|number| tool(&format!("tool{number}")))),
            "fails to list" => {
                let error = json!({ "code": -32603, "message": "no list today" });
                outlet.answer(json!({ "id": id, "error": error }), StatusCode::OK).await;
                return;
            }
            "repeats a tool" => tools.push(tool("look")),
            "changes in a call" => {
                let changes = self.changes_in_calls.load(Ordering::Relaxed);
                tools.extend((0..changes).map(|number| tool(&format!("new{number}"))));
            }
            "changes its tools" => tools.push(tool(&format!("version{}", self.changes.load(Ordering::Relaxed)))),
            "breaks its output schema" => {
                tools[1]["outputSchema"] =
                    json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
            }
            _ => {}
        }
        let mut page = if self.is("lists no list") { json!({ "tools": "none" }) } else { json!({ "tools": tools }) };
        if !next.is_null() {
            page["nextCursor"] = next;
        }
        if self.is_modern {
            page["ttlMs"] = 0.into();
            page["cacheScope"] = "private".into();
        }
        if self.is("changes with each list") {
            outlet.message(json!({ "method": "notifications/tools/list_changed" })).await;
        }
        self.result(id, page, outlet).await;
    }

    /// The answer of a tool that has trouble, as far as that is in its form.
    fn well(&self, id: &Value) -> Value {
        let mut well = json!({ "id": id, "result": text("well") });
        let unwell = json!({ "code": 1, "message": "unwell" });
        match self.mode.as_str() {
            "answers with both" => well["error"] = unwell,
            "answers with a list for the error" => well = json!({ "id": id, "error": [-32000, "unwell"] }),
            "adds a null error" => well["error"] = Value::Null,
            "writes the code as text" => {
                well = json!({ "id": id, "error": { "code": "-32603", "message": "unwell" } });
            }
            "answers under a text" => well["id"] = id.to_string().into(),
            "answers under a fraction" => well["id"] = id.as_f64().into(),
            "writes null members" => {
                for name in ["method", "params", "error"] {
                    well[name] = Value::Null;
                }
            }
            "writes the error as text" => well = json!({ "id": id, "error": "unwell" }),
            "writes null for the structure" => well["result"]["structuredContent"] = Value::Null,
            "answers with neither" => well = json!({ "id": id }),
            _ => {}
        }
        well
    }

    async fn trouble(&self, id: &Value, outlet: &Outlet) {
        match self.mode.as_str() {
            "exits in a call" | "closes its output" | "leaves grandchildren" | "leaves a daemon" => {
                return self.end.cancel();
            }
            "stops reading" | "never answers" => return std::future::pending().await,
            "floods" => return flood(outlet).await,
            "answers twice" => {
                for which in ["first", "second"] {
                    self.result(id, text(which), outlet).await;
                }
                return;
            }
            "answers an unknown id" => {
                outlet.message(json!({ "id": 987_654, "result": text("whose?") })).await;
                for id in [json!("x"), Value::Null] {
                    outlet.message(json!({ "id": id, "error": { "code": 1, "message": "whose?" } })).await;
                }
                return self.result(id, text("first"), outlet).await;
            }
            "answers with a text" => return self.result(id, json!("text"), outlet).await,
            "logs what looks like an answer" => {
                let log = json!({ "id": id, "result": text("first"), "error": { "code": 1, "message": "unwell" } });
                print(&log.to_string(), outlet).await;
            }
            "writes Latin-1" => return self.write_raw((id, b"caf\xe9"), (b"", b""), outlet).await,
            "writes a tab in a text" => return self.write_raw((id, b"a\tb"), (b"", b""), outlet).await,
            "begins with a byte order mark" => {
                return self.write_raw((id, b"well"), (b"\xef\xbb\xbf", b""), outlet).await;
            }
            "colours its answer" => return self.write_raw((id, b"well"), (b"\x1b[32m", b"\x1b[0m"), outlet).await,
            "logs an answer in a line" => {
                let said = json!({ "jsonrpc": "2.0", "id": id, "result": text("somebody's words") });
                print(&format!("INFO said {said}\n>>>>>{said}\n{{\"said\": {said},}}"), outlet).await;
            }
            "changes in a call" => {
                self.changes_in_calls.fetch_add(1, Ordering::Relaxed);
                outlet.message(json!({ "method": "notifications/tools/list_changed" })).await;
            }
            "answers late" => {
                self.late.cancelled().await;
                return self.result(id, text("late"), outlet).await;
            }
            "breaks its output schema" => {
                let mut broken = text("broken");
                broken["structuredContent"] = json!({ "sum": "seven" });
                return self.result(id, broken, outlet).await;
            }
            _ => {}
        }
        let mut well = self.well(id);
        if self.is_modern && well["result"].is_object() {
            well["result"]["resultType"] = "complete".into();
        }
        outlet.answer(well, StatusCode::OK).await;
    }
}

impl Patient {
    /// Writes the answer with bytes as they are: those of its text, and those around it.
    async fn write_raw(&self, (id, text): (&Value, &[u8]), around: (&[u8], &[u8]), outlet: &Outlet) {
        let kind = if self.is_modern { r#""resultType":"complete","# } else { "" };
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[{{"type":"text","text":""#);
        let answer = [around.0, head.as_bytes(), text, br#""}]}}"#, around.1].concat();
        outlet.write(Piece::Answer(answer.into(), StatusCode::OK)).await;
    }
}

fn text(of: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": of }] })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// Writes lines that are no messages.
async fn print(lines: &str, outlet: &Outlet) {
    for line in lines.split('\n') {
        outlet.write(Piece::Line(Bytes::copy_from_slice(line.as_bytes()))).await;
    }
}

/// Writes a line of a gibibyte.
async fn flood(outlet: &Outlet) {
    let part = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..1024 {
        if !outlet.write(Piece::Part(part.clone())).await {
            return;
        }
    }
    outlet.write(Piece::Line(Bytes::new())).await;
}
