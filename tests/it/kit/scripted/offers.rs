//! Everything that a server of a version offers.

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Map, Value, json};

use super::{script::Script, state::State};

const OFFERS: &str = include_str!("offers.json");

/// The offers of one version, with every member that it defines.
#[derive(Debug)]
pub(crate) struct Offers {
    pub(crate) version: Revision,
    all: Value,
    /// Offers that replace all others.
    pub(super) script: Option<Script>,
}

impl Offers {
    pub(crate) fn of(version: Revision) -> Self {
        Self { version, all: serde_json::from_str(OFFERS).unwrap(), script: None }
    }

    pub(super) fn scripted(version: Revision, script: Script) -> Self {
        Self { script: Some(script), ..Self::of(version) }
    }

    /// The entries of one kind: `about`, `tools`, `prompts`, `resources`, `resourceTemplates`.
    pub(crate) fn entries(&self, kind: &str) -> Vec<Value> {
        match &self.script {
            Some(script) if kind == "tools" => return script.tools.clone(),
            Some(_) if kind != "about" => return Vec::new(),
            _ => {}
        }
        let version = |name: &Value| name.as_str().map(|name| Revision::parse(name).unwrap());
        let has = |offer: &&Value| {
            version(&offer["since"]) <= Some(self.version)
                && version(&offer["until"]).is_none_or(|last| self.version <= last)
        };
        self.all[kind].as_array().unwrap().iter().filter(has).map(|offer| offer["is"].clone()).collect()
    }

    /// The server's `Implementation` in its version.
    pub(crate) fn identity(&self) -> Value {
        self.entries("about").last().unwrap()["serverInfo"].clone()
    }

    pub(crate) fn instructions(&self) -> Value {
        self.entries("about")[0]["instructions"].clone()
    }

    /// The steps of a call, if it has a script.
    pub(super) fn steps_of_call(&self, method: &str, params: &Value) -> Option<Vec<Value>> {
        self.script.as_ref().filter(|_| method == "tools/call").map(|script| script.of_call(params))
    }

    pub(super) fn capabilities(&self) -> Value {
        if self.script.is_some() {
            return json!({ "tools": {} });
        }
        let mut capabilities = json!({ "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true }, "logging": {}, "completions": {} });
        if self.version == Revision::V2025_11_25 {
            capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        }
        capabilities
    }

    /// The result of a method that depends only on the offers. `None` for other methods; an error's data if it names
    /// something that does not exist.
    pub(super) fn result(&self, (method, params): (&str, &Value), state: &State) -> Option<Result<Value, Value>> {
        let named = |entry: fn(&String) -> Value, names: &[String]| names.iter().map(entry).collect::<Vec<Value>>();
        let result = match method {
            "tools/list" => {
                let tool = |name: &String| json!({ "name": name, "inputSchema": { "type": "object" } });
                let mut tools = [named(tool, &state.tools), self.entries("tools")];
                if self.script.is_some() {
                    tools.reverse();
                }
                let tools = tools.concat();
                json!({ "tools": tools, "_meta": { "com.acme/list": 1 } })
            }
            "prompts/list" => {
                let prompt = |name: &String| json!({ "name": name });
                page("prompts", &[named(prompt, &state.prompts), self.entries("prompts")].concat(), params)
            }
            "resources/list" => {
                let resource = |name: &String| json!({ "uri": format!("x:{name}"), "name": name });
                page("resources", &[named(resource, &state.resources), self.entries("resources")].concat(), params)
            }
            "resources/templates/list" => page("resourceTemplates", &self.entries("resourceTemplates"), params),
            "resources/read" if params["uri"] == "x:r" => json!({ "contents": [{ "uri": "x:r", "text": "read" }] }),
            "resources/read" => return Some(Err(params.clone())),
            "completion/complete" => {
                let of = &params["ref"];
                let of = of.get("name").unwrap_or(&of["uri"]);
                json!({ "completion": { "values": [of, params["argument"]["value"]] } })
            }
            "server/discover" if self.version.era() == Era::Modern => {
                json!({ "supportedVersions": [self.version.as_str()], "capabilities": self.capabilities(),
                    "instructions": self.instructions() })
            }
            _ => return None,
        };
        Some(Ok(result))
    }
}

/// Two entries at a time; the cursor of the second page is empty, which is still a cursor.
fn page(kind: &str, entries: &[Value], params: &Value) -> Value {
    let at = match params.get("cursor").map(|cursor| cursor.as_str().unwrap()) {
        None => 0,
        Some("") => 2,
        Some(cursor) => cursor.parse().unwrap(),
    };
    let end = (at + 2).min(entries.len());
    let mut page = Map::from_iter([(kind.to_owned(), entries[at..end].into())]);
    if end < entries.len() {
        let next = if at == 0 { String::new() } else { end.to_string() };
        page.insert("nextCursor".to_owned(), next.into());
    }
    page.into()
}
