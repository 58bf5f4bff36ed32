//! Valid messages of a revision, generated from the bytes of a property test.

use lockkeeper::mcp::{
    Method,
    Revision::{self, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28},
    translate::Kind,
};
use serde_json::{Value, json};

/// The members that a sample may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vocabulary {
    /// Only those that pass every step unchanged.
    Data,
    /// All, with those that have no equivalent in other revisions.
    Whole,
}

/// Source of a sample: decisions, one byte each. After the last, the first choice is taken.
#[derive(Debug)]
pub(super) struct Dice<'a> {
    bytes: std::slice::Iter<'a, u8>,
    revision: Revision,
    vocabulary: Vocabulary,
}

/// The methods of the samples.
pub(super) const METHODS: &[(Kind, Method)] = &[
    (Kind::Result, Method::ToolsList),
    (Kind::Result, Method::ToolsCall),
    (Kind::Result, Method::PromptsList),
    (Kind::Result, Method::PromptsGet),
    (Kind::Result, Method::ResourcesList),
    (Kind::Result, Method::ResourceTemplatesList),
    (Kind::Result, Method::ResourcesRead),
    (Kind::Result, Method::Complete),
    (Kind::Request, Method::ToolsList),
    (Kind::Request, Method::ToolsCall),
    (Kind::Request, Method::PromptsGet),
    (Kind::Request, Method::ResourcesRead),
    (Kind::Request, Method::Complete),
    (Kind::Notification, Method::Progress),
    (Kind::Notification, Method::LoggingMessage),
    (Kind::Notification, Method::ResourceUpdated),
    (Kind::ServerRequest, Method::CreateMessage),
    (Kind::ServerRequest, Method::Elicit),
    (Kind::ServerRequest, Method::RootsList),
    (Kind::Answer, Method::CreateMessage),
    (Kind::Answer, Method::Elicit),
    (Kind::Answer, Method::RootsList),
];

// === impl Dice ===

impl<'a> Dice<'a> {
    pub(super) fn new(bytes: &'a [u8], revision: Revision, vocabulary: Vocabulary) -> Self {
        Self { bytes: bytes.iter(), revision, vocabulary }
    }

    /// A payload of this method; `null` if it is absent, `None` if the revision does not have the method.
    pub(super) fn payload(&mut self, kind: Kind, method: &Method) -> Option<Value> {
        if *method == Method::Elicit && self.revision < V2025_06_18 {
            return None;
        }
        Some(match kind {
            Kind::Result => self.result(method),
            Kind::Request => self.request(method),
            Kind::Notification | Kind::ClientNotification => self.notification(method),
            Kind::ServerRequest => self.question(method),
            Kind::Answer => self.answer(method),
        })
    }

    fn result(&mut self, method: &Method) -> Value {
        let mut result = match method {
            Method::ToolsList => json!({ "tools": self.several(Self::tool) }),
            Method::ToolsCall => self.tool_result(),
            Method::PromptsList => json!({ "prompts": self.several(Self::prompt) }),
            Method::PromptsGet => json!({ "messages": self.several(Self::prompt_message) }),
            Method::ResourcesList => json!({ "resources": self.several(|dice| dice.resource("uri")) }),
            Method::ResourceTemplatesList => {
                json!({ "resourceTemplates": self.several(|dice| dice.resource("uriTemplate")) })
            }
            Method::ResourcesRead => json!({ "contents": self.several(Self::contents) }),
            _ => json!({ "completion": { "values": self.several(Self::text), "total": 7 } }),
        };
        self.maybe(&mut result, V2024_11_05, "_meta", Self::meta);
        if self.revision == V2026_07_28 {
            result["resultType"] = "complete".into();
            if !matches!(method, Method::ToolsCall | Method::PromptsGet | Method::Complete) {
                result["ttlMs"] = 0.into();
                result["cacheScope"] = "private".into();
            }
        }
        result
    }

    fn request(&mut self, method: &Method) -> Value {
        let mut params = match method {
            Method::ToolsList => json!({ "cursor": self.text() }),
            Method::ToolsCall => json!({ "name": self.text(), "arguments": { "a": self.json(2) } }),
            Method::PromptsGet => json!({ "name": self.text(), "arguments": { "a": self.text() } }),
            Method::ResourcesRead => json!({ "uri": self.uri() }),
            _ => {
                json!({ "ref": { "type": "ref/prompt", "name": self.text() }, "argument": { "name": "a", "value": self.text() } })
            }
        };
        if *method == Method::Complete {
            self.maybe(&mut params, V2025_06_18, "context", |dice| json!({ "arguments": { "b": dice.text() } }));
        }
        self.maybe(&mut params, V2024_11_05, "_meta", |dice| json!({ "progressToken": 7, "com.acme/x": dice.json(1) }));
        if self.revision == V2026_07_28 {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "c", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        params
    }

    fn notification(&mut self, method: &Method) -> Value {
        match method {
            Method::Progress => {
                let mut params = json!({ "progressToken": 7, "progress": 1, "total": 2.5 });
                self.maybe(&mut params, V2025_03_26, "message", Self::text);
                params
            }
            Method::LoggingMessage => json!({ "level": "info", "data": self.json(2) }),
            _ => json!({ "uri": self.uri() }),
        }
    }

    fn question(&mut self, method: &Method) -> Value {
        match method {
            Method::CreateMessage => {
                let mut params = json!({ "messages": self.several(Self::sampling_message), "maxTokens": 9 });
                if self.vocabulary == Vocabulary::Whole {
                    self.maybe(&mut params, V2024_11_05, "includeContext", |_| json!("thisServer"));
                    self.maybe(&mut params, V2025_11_25, "tools", |dice| json!([dice.tool()]));
                }
                self.maybe(&mut params, V2024_11_05, "temperature", |_| json!(0.5));
                params
            }
            Method::Elicit if self.vocabulary == Vocabulary::Whole && self.revision >= V2025_11_25 && self.coin() => {
                let mut page = json!({ "mode": "url", "url": "https://x/y", "message": self.text() });
                if self.revision == V2025_11_25 {
                    page["elicitationId"] = "e".into();
                }
                page
            }
            Method::Elicit => {
                let properties = json!({ "a": self.field(), "b": self.field(), "c": self.field() });
                let schema = json!({ "type": "object", "properties": properties, "required": ["a", "b"] });
                json!({ "message": self.text(), "requestedSchema": schema })
            }
            _ => Value::Null,
        }
    }

    fn answer(&mut self, method: &Method) -> Value {
        match method {
            Method::CreateMessage => {
                let mut message = self.sampling_message();
                message["role"] = "assistant".into();
                message["model"] = self.text();
                message
            }
            Method::Elicit => json!({ "action": "accept", "content": { "a": self.text(), "b": 3.5, "c": true } }),
            _ => {
                let mut root = json!({ "uri": "file:///w" });
                self.maybe(&mut root, V2025_06_18, "_meta", Self::meta);
                json!({ "roots": [root] })
            }
        }
    }

    fn field(&mut self) -> Value {
        let whole = self.vocabulary == Vocabulary::Whole && self.revision >= V2025_11_25;
        match self.pick(if whole { 7 } else { 4 }) {
            0 => json!({ "type": "string", "title": self.text(), "maxLength": 9 }),
            1 => json!({ "type": "integer", "minimum": 1 }),
            2 => json!({ "type": "boolean", "default": true }),
            3 => json!({ "type": "string", "enum": ["r", "g"] }),
            4 => json!({ "type": "string", "oneOf": [{ "const": "r", "title": "Red" }] }),
            5 => json!({ "type": "array", "items": { "type": "string", "enum": ["r", "g"] }, "default": ["g"] }),
            _ => json!({ "type": "array", "items": { "anyOf": [{ "const": "r", "title": "Red" }] }, "minItems": 1 }),
        }
    }

    fn sampling_message(&mut self) -> Value {
        let whole = self.vocabulary == Vocabulary::Whole;
        let newest = if whole && self.revision >= V2025_03_26 { 3 } else { 2 };
        let content = if whole && self.revision >= V2025_11_25 && self.coin() {
            let tool_use = json!({ "type": "tool_use", "id": "1", "name": "t", "input": {} });
            let mut blocks = vec![self.block(newest), self.block(newest)];
            blocks.extend(self.coin().then_some(tool_use));
            blocks.into()
        } else {
            self.block(newest)
        };
        json!({ "role": "user", "content": content })
    }

    fn tool_result(&mut self) -> Value {
        let mut content = self.blocks();
        let mut result = json!({ "isError": self.coin() });
        if self.revision >= V2025_06_18 && self.coin() {
            let any = self.revision == V2026_07_28 && self.vocabulary == Vocabulary::Whole;
            let value = if any { self.json(2) } else { json!({ "a": self.json(1) }) };
            if self.vocabulary == Vocabulary::Data {
                content.push(json!({ "type": "text", "text": value.to_string() }));
            }
            result["structuredContent"] = value;
        }
        result["content"] = content.into();
        result
    }

    fn tool(&mut self) -> Value {
        let mut tool = json!({ "name": self.text(), "inputSchema": { "type": "object", "properties": { "a": { "type": "string" } } } });
        let title = self.text();
        self.maybe(&mut tool, V2024_11_05, "description", Self::text);
        self.maybe(&mut tool, V2025_06_18, "title", |_| title.clone());
        if self.revision >= V2025_03_26 {
            // 2025-03-26 gets the title there, so it is data only if it is there already
            tool["annotations"] = json!({ "title": title, "readOnlyHint": true });
        }
        self.maybe(&mut tool, V2025_06_18, "outputSchema", |_| json!({ "type": "object" }));
        self.maybe(&mut tool, V2025_11_25, "icons", |_| json!([{ "src": "https://x/i.png" }]));
        self.maybe(&mut tool, V2025_06_18, "_meta", Self::meta);
        if self.vocabulary == Vocabulary::Whole && self.revision == V2025_11_25 {
            self.maybe(&mut tool, V2025_11_25, "execution", |_| json!({ "taskSupport": "optional" }));
        }
        if self.vocabulary == Vocabulary::Whole && self.revision == V2026_07_28 {
            tool["inputSchema"]["properties"]["b"] = self.coin().into();
            self.maybe(
                &mut tool,
                V2026_07_28,
                "outputSchema",
                |_| json!({ "anyOf": [{ "$ref": "#/$defs/x" }], "$defs": { "x": true } }),
            );
        }
        tool
    }

    fn prompt(&mut self) -> Value {
        let mut argument = json!({ "name": self.text() });
        self.maybe(&mut argument, V2025_06_18, "title", Self::text);
        let mut prompt = json!({ "name": self.text(), "arguments": [argument] });
        self.maybe(&mut prompt, V2025_06_18, "title", Self::text);
        self.maybe(&mut prompt, V2025_11_25, "icons", |_| json!([{ "src": "https://x/i.png" }]));
        prompt
    }

    fn prompt_message(&mut self) -> Value {
        let block = self.blocks().pop().unwrap_or_else(|| json!({ "type": "text", "text": "" }));
        json!({ "role": "user", "content": block })
    }

    fn resource(&mut self, key: &str) -> Value {
        let mut resource = json!({ key: self.uri(), "name": self.text() });
        self.maybe(&mut resource, V2025_06_18, "title", Self::text);
        self.maybe(&mut resource, V2024_11_05, "annotations", Self::annotations);
        self.maybe(&mut resource, V2025_06_18, "_meta", Self::meta);
        resource
    }

    fn contents(&mut self) -> Value {
        let mut contents = json!({ "uri": self.uri(), "text": self.text() });
        self.maybe(&mut contents, V2025_06_18, "_meta", Self::meta);
        contents
    }

    fn blocks(&mut self) -> Vec<Value> {
        let kinds = match self.revision {
            _ if self.vocabulary == Vocabulary::Data => 2,
            V2024_11_05 => 2,
            V2025_03_26 => 4,
            _ => 5,
        };
        (0..self.pick(4)).map(|_| self.block(kinds)).collect()
    }

    /// A block of the first `kinds` kinds: text, image, audio, embedded resource, link.
    fn block(&mut self, kinds: usize) -> Value {
        let mut block = match self.pick(kinds) {
            0 => json!({ "type": "text", "text": self.text() }),
            1 => json!({ "type": "image", "data": "AA==", "mimeType": "image/png" }),
            2 => json!({ "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" }),
            3 => json!({ "type": "resource", "resource": self.contents() }),
            _ => json!({ "type": "resource_link", "uri": self.uri(), "name": self.text() }),
        };
        self.maybe(&mut block, V2024_11_05, "annotations", Self::annotations);
        self.maybe(&mut block, V2025_06_18, "_meta", Self::meta);
        block
    }

    fn annotations(&mut self) -> Value {
        let mut annotations = json!({ "priority": 0.5, "audience": ["user"] });
        self.maybe(&mut annotations, V2025_06_18, "lastModified", |_| json!("2025-01-12T15:00:58Z"));
        annotations
    }

    fn meta(&mut self) -> Value {
        json!({ "com.acme/x": self.json(1) })
    }

    fn uri(&mut self) -> Value {
        format!("file:///{}", self.pick(9)).into()
    }

    fn text(&mut self) -> Value {
        ["", "a", "{\"a\":1}", "\u{e9}\u{1f600}\n\"\\", "null", "[resource_link] {}"][self.pick(6)].into()
    }

    fn json(&mut self, depth: usize) -> Value {
        match self.pick(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => true.into(),
            2 => (-12.5e30).into(),
            3 => 7.into(),
            4 => self.text(),
            5 => vec![self.json(depth - 1), self.json(depth - 1)].into(),
            _ => json!({ "title": self.json(depth - 1), "type": self.json(depth - 1) }),
        }
    }

    fn several(&mut self, mut make: impl FnMut(&mut Self) -> Value) -> Vec<Value> {
        (0..self.pick(3)).map(|_| make(self)).collect()
    }

    fn maybe(&mut self, object: &mut Value, since: Revision, key: &str, make: impl FnOnce(&mut Self) -> Value) {
        if self.revision >= since && self.coin() {
            object[key] = make(self);
        }
    }

    fn coin(&mut self) -> bool {
        self.pick(2) == 1
    }

    fn pick(&mut self, choices: usize) -> usize {
        self.bytes.next().map_or(0, |byte| usize::from(*byte) % choices)
    }
}
