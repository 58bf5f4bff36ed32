//! Translations between all versions. Input: what the payload is, the two versions, flags, and its text.
//!
//! Oracles: the official schemas (a valid payload arrives valid, or is refused); another spelling of the same value, and the
//! value without superseded members, give the same value; a payload that goes there and back keeps what [`KEPT`] lists; the
//! text is bounded.

use bytes::Bytes;
use lockkeeper::mcp::{
    Capabilities, ClientInfo, Facts, Method, Payload, Revision, Untranslatable,
    translate::{
        Cause, Kind, MessageCarrier, OutputSchema, Profile, checked, without_invalid_header_params, wrapped_tools,
    },
};
use serde_json::{Value, value::RawValue};

use super::{
    input::{Dice, Speller},
    schemas::{self, PAYLOADS},
    tree::Tree,
};

/// The first of several questions of a server, for the answers.
const QUESTIONS: [&str; 2] = [
    r#"{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"array","minItems":1,"items":{"enum":["r","g"]}},"n":{"type":"string"}}}}"#,
    r#"{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":7}"#,
];

/// What both sides of a round trip have in every version: paths to values that must be the same after it.
const KEPT: &[(Kind, Method, &[&str])] = &[
    (
        Kind::Result,
        Method::ToolsList,
        &["nextCursor", "tools.*.name", "tools.*.description", "tools.*.inputSchema.type"],
    ),
    (Kind::Result, Method::ToolsCall, &["isError"]),
    (
        Kind::Result,
        Method::PromptsList,
        &["nextCursor", "prompts.*.name", "prompts.*.description", "prompts.*.arguments"],
    ),
    (Kind::Result, Method::PromptsGet, &["description", "messages.*.role"]),
    (Kind::Result, Method::ResourcesList, &["resources"]),
    (Kind::Result, Method::ResourceTemplatesList, &["resourceTemplates"]),
    (Kind::Result, Method::ResourcesRead, &["contents"]),
    (Kind::Result, Method::Complete, &["completion"]),
    (Kind::Request, Method::ToolsList, &["cursor"]),
    (Kind::Request, Method::ToolsCall, &["name", "arguments"]),
    (Kind::Request, Method::PromptsGet, &["name", "arguments"]),
    (Kind::Request, Method::ResourcesRead, &["uri"]),
    (Kind::Request, Method::Complete, &["ref", "argument"]),
    (Kind::Notification, Method::Progress, &["progressToken", "progress", "total"]),
    (Kind::Notification, Method::LoggingMessage, &["level", "logger", "data"]),
    (Kind::Notification, Method::ResourceUpdated, &["uri"]),
    (
        Kind::ServerRequest,
        Method::CreateMessage,
        &["maxTokens", "systemPrompt", "temperature", "stopSequences", "modelPreferences"],
    ),
    (Kind::ServerRequest, Method::Elicit, &["message"]),
    (Kind::Answer, Method::CreateMessage, &["model", "role"]),
    (Kind::Answer, Method::Elicit, &["action"]),
    (Kind::Answer, Method::RootsList, &["roots"]),
];

/// The bound that the translator states, and bytes that the client's description adds.
fn bound(text: &str) -> usize {
    8 * text.len() + (2 << 20) + 4096
}

/// A payload, and where it goes.
struct Journey {
    place: usize,
    from: Revision,
    to: Revision,
    profile: Profile,
    schema: OutputSchema,
    client: ClientInfo,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let (place, pair, flags) = (dice.below(PAYLOADS.len()), dice.below(25), dice.byte());
    let Ok(text) = std::str::from_utf8(dice.rest()) else { return };
    // the envelope's parser has checked it
    if !text.is_empty() && serde_json::from_str::<&RawValue>(text).is_err() {
        return;
    }
    let journey = Journey {
        place,
        from: Revision::ALL[pair / 5],
        to: Revision::ALL[pair % 5],
        profile: if flags & 1 == 1 { Profile::Strict } else { Profile::Faithful },
        schema: if flags & 2 == 2 { OutputSchema::Wrapped } else { OutputSchema::AsWritten },
        client: client(),
    };
    let carried = journey.carried(journey.from, journey.to, text);
    lists(&journey, text);
    let Some(tree) = Tree::read(text) else { return };
    if let Ok(carried) = &carried {
        assert!(carried.json().len() <= bound(text), "{} bytes of {}", carried.json().len(), text.len());
        assert!(carried.is_absent() || value_of(carried).is_some(), "{:?} of {text}", carried.json());
    }
    let is_value = serde_json::from_str::<Value>(text).is_ok();
    if is_value {
        journey.same(&carried, &tree.unambiguous().to_string(), text);
        journey.same(&carried, &Speller::new(u64::from(flags)).respell(&tree), text);
    }
    if is_value && tree.is_unambiguous() {
        journey.valid(&carried, text, &tree);
    }
}

/// Payloads like those of the vectors.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for line in include_str!("../../tests/vectors/translation.jsonl").lines() {
        let Ok(vector) = serde_json::from_str::<Value>(line) else { continue };
        let version = |key: &str| Revision::ALL.iter().position(|one| vector[key] == one.as_str());
        let (Some(from), Some(to)) = (version("from"), version("to")) else { continue };
        let message = if vector["given"]["jsonrpc"].is_null() { &vector["given"]["body"] } else { &vector["given"] };
        let is_from_server = vector["direction"] == "backend>client";
        let method = message["method"].as_str().or(vector["method"].as_str()).unwrap_or_default();
        let (kind, payload) = match (message.get("result"), message.get("id").is_some(), is_from_server) {
            (Some(result), _, true) => (Kind::Result, result),
            (Some(result), _, false) => (Kind::Answer, result),
            (None, true, true) => (Kind::ServerRequest, &message["params"]),
            (None, true, false) => (Kind::Request, &message["params"]),
            (None, false, _) => (Kind::Notification, &message["params"]),
        };
        let Some(place) = schemas::place_of(kind, &Method::parse(method)) else { continue };
        let head = [place, from * 5 + to, 0].map(|part| u8::try_from(part).unwrap_or_default());
        seeds.push([&head, payload.to_string().as_bytes()].concat());
    }
    seeds
}

fn client() -> ClientInfo {
    ClientInfo {
        revision: Revision::V2025_11_25,
        implementation: Bytes::from_static(br#"{"name":"c","version":"1"}"#),
        capabilities: Capabilities::new(Bytes::from_static(
            br#"{"sampling":{"context":{},"tools":{}},"elicitation":{}}"#,
        )),
    }
}

fn value_of(payload: &Payload) -> Option<Value> {
    serde_json::from_slice(payload.json()).ok()
}

/// A tree in which texts that are JSON themselves are read too: some translations show one value as the text of another.
fn shown(tree: &Tree) -> Tree {
    match tree {
        Tree::Literal(_) => tree.clone(),
        Tree::Text(text) => {
            let json = text.strip_prefix("[resource_link] ").unwrap_or(text);
            match Tree::read(json) {
                Some(read) => Tree::Array(vec![Tree::Literal("shown".to_owned()), read.unambiguous()]),
                None => tree.clone(),
            }
        }
        Tree::Array(elements) => Tree::Array(elements.iter().map(shown).collect()),
        Tree::Object(members) => {
            let members = members.0.iter().map(|(name, value)| (name.clone(), shown(value)));
            Tree::Object(super::tree::Members(members.collect()))
        }
    }
}

/// Lists are checked, and tools are looked into, whatever they are.
fn lists(journey: &Journey, text: &str) {
    let (_, method, _) = &PAYLOADS[journey.place];
    let payload = || Payload::new(journey.from, Bytes::copy_from_slice(text.as_bytes()));
    let _ = wrapped_tools(&payload());
    let kept = without_invalid_header_params(payload());
    assert!(kept.json().len() <= text.len());
    let page = checked(method, payload(), usize::MAX);
    assert!(page.left_out.first().len() <= page.left_out.count());
    if let Some(tree) = Tree::read(text)
        && serde_json::from_str::<Value>(text).is_ok()
    {
        let page = page.page;
        let again = checked(method, page.clone(), usize::MAX);
        assert!(again.left_out.first().is_empty(), "{:?} of {text}", again.left_out);
        assert_eq!(again.page.json(), page.json(), "{text}");
        let alone = checked(method, Payload::new(journey.from, tree.unambiguous().to_string().into()), usize::MAX);
        let read = |payload: &Payload| std::str::from_utf8(payload.json()).ok().and_then(Tree::read);
        assert_eq!(read(&alone.page), read(&page), "{text}");
    }
}

impl Journey {
    fn carried(&self, from: Revision, to: Revision, text: &str) -> Result<Payload, Untranslatable> {
        let (kind, method, _) = &PAYLOADS[self.place];
        let question = QUESTIONS[usize::from(*method == Method::CreateMessage)];
        let question = Payload::new(to, Bytes::from_static(question.as_bytes()));
        let server = Bytes::from_static(br#"{"name":"s","version":"1"}"#);
        let facts = Facts {
            profile: self.profile,
            schema: self.schema,
            transport: MessageCarrier::Http,
            uri: Some("file:///x"),
            client: Some(&self.client),
            server: Some(&server),
            question: (*kind == Kind::Answer).then_some(&question),
            elicitation_id: Some("e"),
            ..Facts::new(*kind, method)
        };
        Payload::new(from, Bytes::copy_from_slice(text.as_bytes())).into_revision(to, &facts)
    }

    /// Another text of the same value has the same translation.
    fn same(&self, carried: &Result<Payload, Untranslatable>, other: &str, text: &str) {
        let read =
            |carried: &Payload| std::str::from_utf8(carried.json()).ok().and_then(Tree::read).map(|tree| shown(&tree));
        match (carried, self.carried(self.from, self.to, other)) {
            (Ok(carried), Ok(again)) => assert_eq!(read(carried), read(&again), "{text}\nas {other}"),
            (Err(refused), Err(again)) => assert_eq!(*refused, again, "{text}\nas {other}"),
            (carried, again) => panic!("{carried:?} of {text}\nand {again:?} of {other}"),
        }
    }

    /// A valid payload arrives valid, or is refused; back again, it has what it had.
    fn valid(&self, carried: &Result<Payload, Untranslatable>, text: &str, tree: &Tree) {
        let value: Option<Value> = serde_json::from_str(text).ok();
        if schemas::faults(self.from, self.place, value.as_ref()).is_none_or(|faults| !faults.is_empty()) {
            return;
        }
        let (kind, method, _) = &PAYLOADS[self.place];
        let carried = match carried {
            Ok(carried) => carried,
            Err(refused) => {
                let is_of_this_version = !matches!(refused.cause, Cause::Result) || text.contains("resultType");
                assert!(is_of_this_version || text.contains("\"task\""), "{refused} for {text}");
                return;
            }
        };
        let there = value_of(carried);
        if let Some(faults) = schemas::faults(self.to, self.place, there.as_ref()) {
            assert!(
                faults.is_empty(),
                "{method} {} to {}: {faults:?}\n{text}\n{:?}",
                self.from,
                self.to,
                carried.json()
            );
        }
        let Some((.., kept)) = KEPT.iter().find(|(of, name, _)| of == kind && name == method) else { return };
        if self.profile == Profile::Strict || text.contains("x-mcp-header") {
            return;
        }
        let sent = std::str::from_utf8(carried.json()).unwrap_or_default();
        let back = match self.carried(self.to, self.from, sent) {
            Ok(back) => back,
            Err(refused) => panic!("{refused} on the way back from {sent}, which was {text}"),
        };
        let back = std::str::from_utf8(back.json()).ok().and_then(Tree::read);
        for path in *kept {
            let found = back.as_ref().map(|back| back.at(path)).unwrap_or_default();
            assert_eq!(tree.at(path), found, "{path} of {text}\nover {} as {sent}", self.to);
        }
        if (*kind, method) == (Kind::Result, &Method::ToolsCall) {
            let is_plain = |block: &&&Tree| matches!(block.get("type").and_then(Tree::text), Some("text" | "image"));
            let held: Vec<&Tree> = back.as_ref().map(|back| back.at("content.*")).unwrap_or_default();
            let mut held = held.iter();
            for block in tree.at("content.*").iter().filter(is_plain) {
                assert!(held.any(|other| other == block), "{block} of {text}\nover {} as {sent}", self.to);
            }
        }
    }
}
