//! `lockkeeper translate`: translates messages between protocol versions, to debug what a client sees. Starts nothing
//! and sends nothing.

use std::io::{self, BufRead};

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, value::RawValue};

use crate::{
    cli::terminal::{failure::CommandFailure, output::Output, process::ProcessContext},
    mcp::{
        Capabilities, ClientInfo, ErrorObject, Facts, Message, Method, Outcome, Payload, Revision,
        jsonrpc::Frame,
        translate::{Kind, Profile},
    },
};

const EXAMPLES: &str = "\
Each line of standard input is a whole JSON-RPC message, or only its
`params` or `result`, which need --method. Each line of standard output is a
translated message; standard error names messages that are not delivered.

Examples:
  echo '{\"content\":[{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"audio/wav\"}]}' |
      lockkeeper translate --from 2025-11-25 --to 2024-11-05 \\
          --as result --method tools/call
  lockkeeper translate --from 2024-11-05 --to 2026-07-28 \\
      --as request < messages.jsonl

Exit codes: 0 every line was valid, 1 some were not, 2 wrong usage.";

/// `translate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TranslateArgs {
    /// The protocol version of the sender
    #[arg(long, value_name = "VERSION", value_parser = version)]
    from: Revision,
    /// The protocol version of the receiver
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Revision,
    /// Kind of the input lines
    #[arg(long = "as", value_name = "KIND")]
    form: LineKind,
    /// Method of lines that do not name it
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Removes members that the receiver's version does not define, as for clients with `profile = "strict"`
    #[arg(long)]
    strict: bool,
    /// Capabilities of the client, which requests of 2026-07-28 repeat
    #[arg(long, value_name = "JSON", value_parser = capabilities)]
    capabilities: Option<Capabilities>,
}

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LineKind {
    /// Request, of either side.
    Request,
    /// Result of a request.
    Result,
    /// Notification.
    Notification,
}

/// Translation of a line.
#[derive(Debug, Default)]
struct TranslatedLine {
    /// Message that the receiver gets.
    received: Option<Bytes>,
    /// A note for the person.
    remark: Option<String>,
}

enum Line {
    Message(Message),
    /// `params` or a result without its message.
    Bare(Bytes),
}

// === impl TranslateArgs ===

impl TranslateArgs {
    /// Translates standard input.
    pub fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let wrong = self.translate(io::stdin().lock(), &mut process.output)?;
        match wrong {
            0 => Ok(()),
            1 => Err(CommandFailure::failed("one line is invalid; see above")),
            _ => Err(CommandFailure::failed(format!("{wrong} lines are invalid; see above"))),
        }
    }

    /// Translates every line; returns the number of invalid ones.
    fn translate(&self, input: impl BufRead, output: &mut Output) -> Result<usize, CommandFailure> {
        let mut wrong = 0;
        for (index, line) in input.lines().enumerate() {
            let line = line.map_err(|error| CommandFailure::failed("standard input cannot be read").why(error))?;
            if line.trim().is_empty() {
                continue;
            }
            match self.carry(line.into()) {
                Ok(TranslatedLine { received, remark }) => {
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

    fn carry(&self, text: Bytes) -> Result<TranslatedLine, String> {
        match Line::read(text)? {
            Line::Bare(json) => {
                let method = self.method().ok_or("a line without `jsonrpc` needs --method")?;
                let carried = self.payload(json, &method).map(|payload| payload.json().clone());
                Ok(carried.map_or_else(|refusal| self.refused(&refusal), TranslatedLine::received))
            }
            Line::Message(Message::Request { id, method, params }) if self.form == LineKind::Request => {
                let carried = self.payload(params.into_text(), &method);
                Ok(carried.map_or_else(
                    |refusal| self.refused(&refusal),
                    |params| {
                        let params = params.into_params();
                        TranslatedLine::received(Message::Request { id, method: method.clone(), params }.encode())
                    },
                ))
            }
            Line::Message(Message::Notification { method, params }) if self.form == LineKind::Notification => {
                let carried = self.payload(params.into_text(), &method);
                Ok(carried.map_or_else(
                    |refusal| self.refused(&refusal),
                    |params| {
                        let params = params.into_params();
                        TranslatedLine::received(Message::Notification { method: method.clone(), params }.encode())
                    },
                ))
            }
            Line::Message(Message::Response { id, outcome }) if self.form == LineKind::Result => {
                let method = self.method().ok_or("a response needs --method, since it does not name its request")?;
                let outcome = self.outcome(outcome, &method);
                Ok(TranslatedLine::received(Message::Response { id, outcome }.encode()))
            }
            Line::Message(message) => Err(format!("it is a {}, which does not match --as", name(&message))),
        }
    }

    /// The outcome of a request, as its sender gets it.
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

    /// A refused message, with a note about the error that the sender gets.
    fn refused(&self, refusal: &crate::mcp::Untranslatable) -> TranslatedLine {
        let error = refusal.error();
        let remark = match self.form {
            LineKind::Notification => format!("it is dropped: {refusal}"),
            LineKind::Request | LineKind::Result => {
                format!("it is not delivered; the sender gets {}", String::from_utf8_lossy(error.json()))
            }
        };
        TranslatedLine { received: None, remark: Some(remark) }
    }

    fn kind(&self, method: &Method) -> Kind {
        let by_server = matches!(method, Method::CreateMessage | Method::Elicit | Method::RootsList);
        match (self.form, by_server) {
            (LineKind::Request, false) => Kind::Request,
            (LineKind::Request, true) => Kind::ServerRequest,
            (LineKind::Result, false) => Kind::Result,
            (LineKind::Result, true) => Kind::Answer,
            (LineKind::Notification, _) => match method {
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

// === impl TranslatedLine ===

impl TranslatedLine {
    fn received(text: Bytes) -> Self {
        Self { received: Some(text), remark: None }
    }
}

// === impl Line ===

impl Line {
    fn read(text: Bytes) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct JsonRpcMember<'a> {
            #[serde(borrow)]
            jsonrpc: Option<&'a RawValue>,
        }
        let whole = serde_json::from_slice::<JsonRpcMember<'_>>(&text).map(|view| view.jsonrpc.is_some());
        match whole {
            Ok(true) => match Frame::parse(&text) {
                Ok(Frame::Single(message)) => Ok(Self::Message(message)),
                Ok(Frame::Batch(_)) => Err("it is a batch; give each message its own line".to_owned()),
                Err(malformed) => Err(format!("it is not a valid message: {malformed}")),
            },
            Ok(false) => Ok(Self::Bare(text)),
            Err(error) if error.is_data() => Err("it is not a JSON object".to_owned()),
            Err(error) => Err(format!("it is not JSON: {error}")),
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
    Revision::parse(name).ok_or_else(|| format!("the supported versions are {}", known()))
}

fn capabilities(text: &str) -> Result<Capabilities, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => Ok(Capabilities::new(Bytes::copy_from_slice(text.as_bytes()))),
        Ok(_) => Err("it must be a JSON object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}
