//! `[clients.NAME] profile = "strict"`, from the file to the wire.

use std::{collections::BTreeSet, fs};

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{Gateway, client, direct_key};
use crate::{support::data_folder::DataFolder, translate::schemas};

/// The requests, the place of the entries in the answer, and their definition in the schemas.
const ANSWERS: [(&str, &str, &str); 5] = [
    ("initialize", "/serverInfo", "Implementation"),
    ("tools/list", "/tools", "Tool"),
    ("prompts/list", "/prompts", "Prompt"),
    ("resources/list", "/resources", "Resource"),
    ("tools/call", "", "CallToolResult"),
];

/// One session of a client.
struct Session<'a> {
    gateway: &'a Gateway,
    key: &'a str,
    id: Option<String>,
    greeting: Value,
}

impl<'a> Session<'a> {
    async fn open((gateway, key): (&'a Gateway, &'a str), name: &str, revision: Revision) -> Self {
        let mut session = Self { gateway, key, id: None, greeting: Value::Null };
        let client = json!({ "name": name, "version": "1" });
        let params = json!({ "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client });
        session.greeting = session.ask("initialize", params).await;
        session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        session
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let text = self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        let mut answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    async fn post(&mut self, message: &Value) -> String {
        let request = client().post(format!("{}/mcp", self.gateway.url)).bearer_auth(self.key);
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match &self.id {
            Some(id) => request.header("mcp-session-id", id),
            None => request,
        };
        let response = request.body(message.to_string()).send().await.unwrap();
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.id = Some(id.to_str().unwrap().to_owned());
        }
        response.text().await.unwrap()
    }

    /// All members of the entries in this answer that the version does not define.
    async fn unknown(&mut self, revision: Revision, (method, path, definition): (&str, &str, &str)) -> Vec<String> {
        let answer = match method {
            "initialize" => self.greeting.clone(),
            "tools/call" => self.ask(method, json!({ "name": "demo__add", "arguments": { "a": 1, "b": 2 } })).await,
            method => self.ask(method, json!({})).await,
        };
        let found = answer.pointer(path).unwrap_or_else(|| panic!("{method}: {answer}"));
        let entries = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
        let defined = schemas::members(revision, definition);
        let members: BTreeSet<_> =
            entries.iter().flat_map(|entry| entry.as_object().unwrap().keys().cloned()).collect();
        assert!(members.iter().any(|member| defined.contains(member)), "{method}: {answer}");
        members.into_iter().filter(|member| !defined.contains(member)).collect()
    }
}

#[tokio::test]
async fn a_client_with_the_strict_profile_gets_only_members_of_its_version() {
    let folder = DataFolder::new();
    fs::write(
        folder.path().join("lockkeeper.toml"),
        "[servers.demo]\nbuiltin = \"demo\"\n[clients.picky]\nprofile = \"strict\"\n",
    )
    .unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let key = direct_key(folder.path());
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
        let mut picky = Session::open((&gateway, &key), "picky", revision).await;
        let mut other = Session::open((&gateway, &key), "other", revision).await;
        for answer in ANSWERS {
            let nothing: [String; 0] = [];
            assert_eq!(picky.unknown(revision, answer).await, nothing, "{answer:?} {revision}");
            let passed = other.unknown(revision, answer).await;
            // the demonstration writes 2025-11-25; all of that is defined in 2025-06-18
            assert_eq!(passed.is_empty(), revision == Revision::V2025_06_18, "{answer:?} {revision}: {passed:?}");
        }
    }
    gateway.stop().await;
}
