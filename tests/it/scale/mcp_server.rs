//! The servers that a gateway is measured in front of: one that is another at each path, and does nothing else.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::kit::{
    carriers::{Carrier, Hosted},
    prescribed::{Came, Heard, Keeping, PrescribedServer, Said},
};

/// The servers. What they hear is forgotten.
pub(super) struct McpServers {
    hosted: Hosted,
    lists: Arc<ToolLists>,
    /// A session in which something is said: the last one that subscribed to anything, or the first.
    speaker: Arc<Mutex<Option<Heard>>>,
    _hearing: JoinSet<()>,
}

/// Their lists of tools, of which the first has the number of the last change in its name.
struct ToolLists {
    count: u32,
    changes: AtomicU32,
}

// === impl McpServers ===

impl McpServers {
    /// Servers with so many tools each.
    pub(super) fn start(tools: u32) -> Self {
        let lists = Arc::new(ToolLists { count: tools, changes: AtomicU32::new(0) });
        let answering = Arc::clone(&lists);
        let (server, mut came) = PrescribedServer::new(Keeping::Sessions, move |message| answering.answer(message));
        let (speaker, mut hearing) = (Arc::new(Mutex::new(None)), JoinSet::new());
        let last = Arc::clone(&speaker);
        hearing.spawn(async move {
            while let Some(came) = came.recv().await {
                let Came::Message(heard) = came else { continue };
                let method = &heard.message["method"];
                if method == "resources/subscribe" || (method == "initialize" && last.lock().is_none()) {
                    *last.lock() = Some(heard);
                }
            }
        });
        Self { hosted: Hosted::start(Carrier::Http, Arc::new(server)), lists, speaker, _hearing: hearing }
    }

    /// The sections of so many of them, `s0` and so on, with these lines.
    pub(super) fn sections(&self, count: u32, lines: &str) -> String {
        let mut sections = String::new();
        for number in 0..count {
            let origin = self.hosted.origin();
            writeln!(sections, "[servers.s{number}]\nurl = \"{origin}/{number}\"\nera = \"legacy\"\n{lines}").unwrap();
        }
        sections
    }

    /// Says something outside of any exchange.
    pub(super) fn say(&self, method: &str, params: &Value) {
        let speaker = self.speaker.lock();
        speaker.as_ref().unwrap().say_aside(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Changes the list of tools, and says so. Returns the number of the change.
    pub(super) fn change(&self) -> u32 {
        let number = self.lists.changes.fetch_add(1, Ordering::Relaxed) + 1;
        self.say("notifications/tools/list_changed", &json!({}));
        number
    }
}

// === impl ToolLists ===

impl ToolLists {
    fn answer(&self, message: &Value) -> Said {
        let Some(id) = message.get("id") else { return Said::Answer(202, String::new()) };
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true } },
                "serverInfo": { "name": "scale", "version": "1" },
                "instructions": "Be brief.",
            }),
            "tools/list" => {
                let changed = format!("changed{}", self.changes.load(Ordering::Relaxed));
                let others =
                    (1..self.count).map(|number| if number == 1 { "echo".into() } else { format!("tool{number}") });
                let tool = |name| json!({ "name": name, "inputSchema": { "type": "object" } });
                json!({ "tools": std::iter::once(changed).chain(others).map(tool).collect::<Vec<_>>() })
            }
            "tools/call" => {
                let text = message["params"]["arguments"]["message"].as_str().unwrap_or_default();
                json!({ "content": [{ "type": "text", "text": text }] })
            }
            "resources/list" => json!({ "resources": [{ "uri": "file:///a", "name": "a" }] }),
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            _ => json!({}),
        };
        Said::Answer(200, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
    }
}
