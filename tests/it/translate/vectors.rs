//! The vectors that the translation steps alone can be tested with. Each has a message of one revision and the message
//! that the other side gets.
//!
//! Values of other modules are not compared: ids, and values that the gateway creates. Every vector also runs through
//! the whole gateway, see `crate::vectors`. Further files (`TRANSLATION_VECTORS`, a path list) are tested here if their
//! form allows it.

use bytes::Bytes;
use lockkeeper::mcp::{
    Capabilities, ClientInfo, ErrorObject, Facts, Message, Method, Outcome, Payload, Revision,
    translate::{Cause, Kind, MessageCarrier, Profile},
};
use serde_json::{Value, json};

use super::{schemas::Schemas, value};
use crate::vectors::vector::{self, Vector, leave_minted};

/// Vectors of the group `shape` that need more than the steps, and the parts that they need. Exact: one that passes by
/// the steps alone must leave.
const NEED_ADAPTERS: &[(&str, &str)] = &[
    ("H06", "handshake"),
    ("H07", "handshake"),
    ("H11", "handshake"),
    ("H15", "ping is answered where it comes in"),
    ("H17", "ping is answered where it comes in"),
    ("Q20", "batch"),
    ("Q21", "batch"),
    ("Q22", "batch"),
    ("Q30", "capabilities that the front offers"),
    ("R29", "the result of a task is fetched first"),
    ("R39", "an error without an id belongs to no call"),
    ("M20", "capabilities that the client declared"),
    ("M21", "the call that a question belongs to"),
    ("M27", "a park that runs out"),
    ("T02", "sessions of HTTP"),
    ("T03", "sessions of HTTP"),
    ("T07", "sessions of HTTP"),
    ("T08", "origins of HTTP"),
    ("T10", "streams of HTTP"),
    ("T11", "streams of HTTP"),
    ("G03", "URIs of the merged endpoint"),
    ("G06", "names of the merged endpoint"),
    ("G07", "cursors of the merged endpoint"),
    ("G09", "lists of the merged endpoint"),
    ("X01", "handshake"),
    ("X13", "methods of a session"),
    ("X18", "log level of a session"),
    ("P03", "batch"),
    ("S03", "handshake"),
];

/// Vectors of the group `era` that differ only in shapes.
const SHAPES_OF_THE_ERA: &[&str] = &[
    "H14", "Q28", "Q01", "Q02", "Q04", "Q05", "Q06", "Q08", "Q11", "Q29", "Q38", "N06", "N07", "N12", "M29", "X10",
    "X11", "X14", "X15", "X16", "S02",
];

#[test]
fn every_shape_vector_is_translated_as_expected() {
    let mut schemas = Schemas::default();
    let mut wrong = Vec::new();
    for vector in vector::own() {
        let verdict = vector.judge(&mut schemas);
        let listed = match vector.group.as_str() {
            "shape" => NEED_ADAPTERS.iter().all(|(id, _)| *id != vector.id),
            _ => SHAPES_OF_THE_ERA.contains(&vector.id.as_str()),
        };
        match verdict {
            Ok(()) if !listed => {
                wrong.push(format!("{}: passes by the steps alone, and the tables say that it cannot", vector.id));
            }
            Err(fault) if listed => wrong.push(format!("{}: {fault}", vector.id)),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn further_vectors_are_translated_as_expected() {
    let mut schemas = Schemas::default();
    let mut wrong = Vec::new();
    // those between legacy versions run through the gateway, with its steps
    let fits = |vector: &&Vector| {
        let alone = NEED_ADAPTERS.iter().all(|(id, _)| *id != vector.id) && !vector.direction.contains("gateway");
        vector.is_shape() && vector.is_modern() && vector.is_one_message() && alone
    };
    for vector in vector::further().iter().filter(fits) {
        if let Err(fault) = vector.judge(&mut schemas) {
            wrong.push(format!("{}: {fault}", vector.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// === impl Vector ===

impl Vector {
    fn judge(&self, schemas: &mut Schemas) -> Result<(), String> {
        let expected = self.expected().ok_or("expects no message")?;
        if self.direction.contains("gateway") {
            return Err("is answered by the gateway".to_owned());
        }
        let (from, to) = (Revision::parse(&self.from).ok_or("from")?, Revision::parse(&self.to).ok_or("to")?);
        let given = Message::parse(&Bytes::copy_from_slice(self.given.get().as_bytes())).map_err(|e| e.to_string())?;
        let (kind, method) = self.kind(&given);
        let (client, server) = (self.client(from), Bytes::from_static(br#"{"name":"srv","version":"3"}"#));
        let facts = Facts { client: Some(&client), server: Some(&server), ..self.facts(kind, &method) };
        let wrapped = self.ctx["advertised_output_schema_wrapped"] == true;
        let written = |json| match Payload::new(from, json) {
            result if wrapped => result.of_wrapped_output(),
            payload => payload,
        };
        let mut carry = |json: Bytes| match written(json).into_revision(to, &facts) {
            Ok(payload) => self.check(schemas, kind, &payload).map(|()| Ok(payload)),
            Err(refused) if refused.cause == Cause::Notification => Ok(Err(json!({ "drop": true }))),
            Err(refused) => Ok(Err(json!({ "error": { "code": refused.error().code() } }))),
        };
        let got = match given {
            Message::Request { params, .. } | Message::Notification { params, .. } => {
                match carry(params.into_text())? {
                    Ok(params) if params.is_absent() => json!({ "method": name_in(to, &method) }),
                    Ok(params) => json!({ "method": name_in(to, &method), "params": value(&params) }),
                    Err(refused) => refused,
                }
            }
            Message::Response { outcome: Ok(result), .. } => match carry(result)? {
                Ok(result) => json!({ "result": value(&result) }),
                Err(refused) => refused,
            },
            Message::Response { outcome: Err(_), id: None } => return Err("has no id".to_owned()),
            Message::Response { outcome: Err(error), .. } => {
                self.outcome(schemas, error.written_in(from).into_revision(to, &facts))?
            }
        };
        let mut expected = expected.clone();
        for member in ["jsonrpc", "id"] {
            expected.as_object_mut().unwrap().remove(member);
        }
        let (got, expected) = (leave_minted(got), leave_minted(expected));
        if got == expected { Ok(()) } else { Err(format!("\n  got      {got}\n  expected {expected}")) }
    }

    fn outcome(&self, schemas: &mut Schemas, outcome: Outcome) -> Result<Value, String> {
        let error = |error: ErrorObject| json!({ "error": serde_json::from_slice::<Value>(error.json()).unwrap() });
        Ok(match outcome {
            Outcome::Complete(result) | Outcome::InputRequired(result) => {
                self.check(schemas, Kind::Result, &result)?;
                json!({ "result": value(&result) })
            }
            Outcome::Failed(failed) => error(failed),
        })
    }

    /// Validates the message for its receiver.
    fn check(&self, schemas: &mut Schemas, kind: Kind, payload: &Payload) -> Result<(), String> {
        let is_task = value(payload).get("taskId").is_some() || value(payload).get("task").is_some();
        if self.expect_valid == Some(false) || is_task {
            return Ok(());
        }
        let method = Method::parse(self.method.as_deref().or_else(|| self.ctx["method"].as_str()).unwrap_or_default());
        let faults = schemas.faults(payload.revision, kind, &method, &value(payload));
        if faults.is_empty() { Ok(()) } else { Err(format!("invalid in {}: {faults}", payload.revision)) }
    }

    fn kind(&self, given: &Message) -> (Kind, Method) {
        let of_client = self.direction.starts_with("client");
        let answered = || self.answered().map(Method::parse);
        match given {
            Message::Request { method, .. } if of_client => (Kind::Request, method.clone()),
            Message::Request { method, .. } => (Kind::ServerRequest, method.clone()),
            Message::Notification { method, .. } if of_client => (Kind::ClientNotification, method.clone()),
            Message::Notification { method, .. } => (Kind::Notification, method.clone()),
            Message::Response { .. } => {
                let kind = if of_client { Kind::Answer } else { Kind::Result };
                (kind, answered().unwrap_or(Method::ResourcesRead))
            }
        }
    }

    fn facts<'a>(&'a self, kind: Kind, method: &'a Method) -> Facts<'a> {
        Facts {
            profile: if self.is_strict() { Profile::Strict } else { Profile::Faithful },
            transport: if self.ctx["transport"] == "http" { MessageCarrier::Http } else { MessageCarrier::Channel },
            uri: self.ctx["requested_uri"].as_str(),
            ..Facts::new(kind, method)
        }
    }

    fn client(&self, revision: Revision) -> ClientInfo {
        let capabilities = self.ctx.get("client_caps").cloned().unwrap_or_else(|| json!({}));
        ClientInfo {
            revision,
            implementation: Bytes::from_static(br#"{"name":"cli","version":"2"}"#),
            capabilities: Capabilities::new(capabilities.to_string().into()),
        }
    }
}

/// The name of a notification with two names, in the receiver's version.
fn name_in(revision: Revision, method: &Method) -> &str {
    match method {
        Method::Tasks | Method::TaskStatus if revision == Revision::V2026_07_28 => Method::Tasks.as_str(),
        Method::Tasks | Method::TaskStatus => Method::TaskStatus.as_str(),
        _ => method.as_str(),
    }
}
