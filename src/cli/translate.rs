//! `lockkeeper translate`: what the other side gets of a message, to find out why a client sees what it sees. Starts
//! nothing and asks nobody.

use std::io::{self, BufRead};

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, value::RawValue};

use super::{failure::Failure, output::Output, process::Process};
use crate::mcp::{
    Capabilities, ClientInfo, ErrorObject, Facts, Message, Method, Outcome, Payload, Revision,
    jsonrpc::Frame,
    translate::{Kind, Profile},
};

const EXAMPLES: &str = "\
Each line of standard input is a whole JSON-RPC message, or its `params` or `result` alone, which need --method.
Each line of standard output is what the other side gets; what it does not get is told on standard error.

Examples:
  echo '{\"content\":[{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"audio/wav\"}]}' |
      lockkeeper translate --from 2025-11-25 --to 2024-11-05 --as result --method tools/call
  lockkeeper translate --from 2024-11-05 --to 2026-07-28 --as request < messages.jsonl

Exit codes: 0 every line was read, 1 some were no such message, 2 wrong usage.";

/// `translate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The protocol version of the sender
    #[arg(long, value_name = "VERSION", value_parser = version)]
    from: Revision,
    /// The protocol version of the receiver
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Revision,
    /// What the lines are
    #[arg(long = "as", value_name = "KIND")]
    form: Form,
    /// The method that they belong to, where they do not say it themselves
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Takes out what the receiver's version does not define, as for clients with `profile = "strict"`
    #[arg(long)]
    strict: bool,
    /// The capabilities that the client declared, which requests of 2026-07-28 repeat
    #[arg(long, value_name = "JSON", value_parser = capabilities)]
    capabilities: Option<Capabilities>,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// What a client asks a server, or a server its client.
    Request,
    /// The answer to it.
    Result,
    /// What needs no answer.
    Notification,
}

/// What becomes of a line.
#[derive(Debug, Default)]
struct Carried {
    /// What the other side gets.
    received: Option<Bytes>,
    /// What is to be said about it.
    remark: Option<String>,
}

/// A line as it was read.
enum Line {
    Message(Message),
    /// Params or a result alone.
    Bare(Bytes),
}

// === impl Args ===

impl Args {
    /// Translates standard input.
    pub fn run(self, process: &mut Process) -> Result<(), Failure> {
        let wrong = self.translate(io::stdin().lock(), &mut process.output)?;
        match wrong {
            0 => Ok(()),
            1 => Err(Failure::failed("one line could not be read; it is named above")),
            _ => Err(Failure::failed(format!("{wrong} lines could not be read; they are named above"))),
        }
    }

    /// Translates every line; gives the number of those that could not be read.
    fn translate(&self, input: impl BufRead, output: &mut Output) -> Result<usize, Failure> {
        let mut wrong = 0;
        for (index, line) in input.lines().enumerate() {
            let line = line.map_err(|error| Failure::failed("standard input cannot be read").why(error))?;
            if line.trim().is_empty() {
                continue;
            }
            match self.carry(line.into()) {
                Ok(Carried { received, remark }) => {
                    if let Some(text) = received {
                        output.print(&String::from_utf8_lossy(&text));
                    }
                    if let Some(remark) = remark {
                        output.remark(&format!("line {}: {remark}", index + 1));
                    }
                }
                Err(why) => {
                    wrong += 1;
                    output.remark(&format!("line {}: {why}", index + 1));
                }
            }
        }
        Ok(wrong)
    }

    fn carry(&self, text: Bytes) -> Result<Carried, String> {
        match Line::read(text)? {
            Line::Bare(json) => {
                let method = self.method().ok_or("a line without `jsonrpc` needs --method")?;
                let carried = self.payload(json, &method).map(|payload| payload.json().clone());
                Ok(carried.map_or_else(|refusal| self.refused(&refusal), Carried::received))
            }
            Line::Message(Message::Request { id, method, params }) if self.form == Form::Request => {
                let carried = self.payload(params, &method);
                Ok(carried.map_or_else(
                    |refusal| self.refused(&refusal),
                    |params| {
                        let params = params.json().clone();
                        Carried::received(Message::Request { id, method: method.clone(), params }.encode())
                    },
                ))
            }
            Line::Message(Message::Notification { method, params }) if self.form == Form::Notification => {
                let carried = self.payload(params, &method);
                Ok(carried.map_or_else(
                    |refusal| self.refused(&refusal),
                    |params| {
                        let params = params.json().clone();
                        Carried::received(Message::Notification { method: method.clone(), params }.encode())
                    },
                ))
            }
            Line::Message(Message::Response { id, outcome }) if self.form == Form::Result => {
                let method = self.method().ok_or("an answer needs --method, since it does not say what it answers")?;
                let outcome = self.outcome(outcome, &method);
                Ok(Carried::received(Message::Response { id, outcome }.encode()))
            }
            Line::Message(message) => Err(format!("it is a {}, and --as says otherwise", name(&message))),
        }
    }

    /// The end of a call as its client, or of a question as its server, gets it.
    fn outcome(&self, outcome: Result<Bytes, ErrorObject>, method: &Method) -> Result<Bytes, ErrorObject> {
        let facts = Facts { profile: self.profile(), ..Facts::new(self.kind(method), method) };
        let carried = match outcome {
            Ok(result) => {
                self.payload(result, method).map_or_else(|error| Outcome::Failed(error.error()), Outcome::Complete)
            }
            Err(error) => error.written_in(self.from).into_revision(self.to, &facts),
        };
        match carried {
            Outcome::Complete(result) | Outcome::InputRequired(result) => Ok(result.json().clone()),
            Outcome::Failed(error) => Err(error),
        }
    }

    fn payload(&self, json: Bytes, method: &Method) -> Result<Payload, crate::mcp::Untranslatable> {
        let client = self.capabilities.clone().map(|capabilities| ClientInfo {
            revision: if self.kind(method) == Kind::Request { self.from } else { self.to },
            capabilities,
            ..ClientInfo::gateway()
        });
        let facts = Facts { profile: self.profile(), client: client.as_ref(), ..Facts::new(self.kind(method), method) };
        Payload::new(self.from, json).into_revision(self.to, &facts)
    }

    /// What the other side does not get, and who is told instead.
    fn refused(&self, refusal: &crate::mcp::Untranslatable) -> Carried {
        let error = refusal.error();
        let remark = match self.form {
            Form::Notification => format!("it is dropped: {refusal}"),
            Form::Request | Form::Result => {
                format!("it does not arrive; who sent it gets {}", String::from_utf8_lossy(error.json()))
            }
        };
        Carried { received: None, remark: Some(remark) }
    }

    fn kind(&self, method: &Method) -> Kind {
        let by_server = matches!(method, Method::CreateMessage | Method::Elicit | Method::RootsList);
        match (self.form, by_server) {
            (Form::Request, false) => Kind::Request,
            (Form::Request, true) => Kind::Question,
            (Form::Result, false) => Kind::Result,
            (Form::Result, true) => Kind::Answer,
            (Form::Notification, _) => match method {
                Method::Initialized | Method::RootsListChanged => Kind::ClientNotification,
                _ => Kind::Notification,
            },
        }
    }

    fn method(&self) -> Option<Method> {
        self.method.as_deref().map(Method::parse)
    }

    const fn profile(&self) -> Profile {
        if self.strict { Profile::Strict } else { Profile::Faithful }
    }
}

// === impl Carried ===

impl Carried {
    fn received(text: Bytes) -> Self {
        Self { received: Some(text), remark: None }
    }
}

// === impl Line ===

impl Line {
    fn read(text: Bytes) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct View<'a> {
            #[serde(borrow)]
            jsonrpc: Option<&'a RawValue>,
        }
        let whole = serde_json::from_slice::<View<'_>>(&text).map(|view| view.jsonrpc.is_some());
        match whole {
            Ok(true) => match Frame::parse(&text) {
                Ok(Frame::Single(message)) => Ok(Self::Message(message)),
                Ok(Frame::Batch(_)) => Err("it is a batch; give each message its own line".to_owned()),
                Err(malformed) => Err(format!("it is no message: {malformed}")),
            },
            Ok(false) => Ok(Self::Bare(text)),
            Err(error) if error.is_data() => Err("it is no JSON object".to_owned()),
            Err(error) => Err(format!("it is no JSON: {error}")),
        }
    }
}

fn name(message: &Message) -> &'static str {
    match message {
        Message::Request { .. } => "request",
        Message::Notification { .. } => "notification",
        Message::Response { .. } => "result",
    }
}

fn version(name: &str) -> Result<Revision, String> {
    let known = || Revision::ALL.map(Revision::as_str).join(", ");
    Revision::parse(name).ok_or_else(|| format!("the versions are {}", known()))
}

fn capabilities(text: &str) -> Result<Capabilities, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => Ok(Capabilities::new(Bytes::copy_from_slice(text.as_bytes()))),
        Ok(_) => Err("it must be a JSON object".to_owned()),
        Err(error) => Err(format!("it is no JSON: {error}")),
    }
}
