//! Serves a local client that has to log in: every answer names the endpoint for that (design rule 11, `translation`
//! 6.8). Standard input carries no credential, so nothing else is served and no server is started.

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::client_lines::client_lines;
use crate::{
    frontend::{
        binding::{channel::ChannelInput, refusal::RequestRefusal},
        session::initialize::read_client,
    },
    mcp::{
        ClientInfo, ErrorObject, IndexedJson, Message, Method, RequestId, json,
        jsonrpc::{Frame, Malformed},
        meta,
    },
    wire::lines,
};

/// The endpoint where clients can log in.
#[derive(Debug, Clone)]
pub struct UpgradeOffer {
    /// Its URL.
    pub endpoint: String,
    /// Its transport, in the words of the upgrade: `http+sse` or `streamable-http`.
    pub transport: &'static str,
    /// Maximum size of a message in bytes.
    pub max_message: usize,
}

impl UpgradeOffer {
    /// Answers the messages of `input` until it ends or `output` is closed.
    pub async fn serve(&self, input: impl AsyncRead + Unpin, mut output: impl AsyncWrite + Unpin) {
        let mut lines = Box::pin(client_lines(input, self.max_message));
        while let Some(line) = lines.next().await {
            let answers = match line {
                ChannelInput::Message(text) => self.answers(Frame::parse(&text).and_then(Frame::unambiguous)),
                ChannelInput::Refused(refusal) => vec![refusal.into_message()],
            };
            for answer in answers {
                if output.write_all(&lines::line(answer.encode())).await.is_err() || output.flush().await.is_err() {
                    return;
                }
            }
        }
    }

    fn answers(&self, frame: Result<Frame, Malformed>) -> Vec<Message> {
        let messages = match frame {
            Ok(Frame::Single(message)) => vec![Ok(message)],
            Ok(Frame::Batch(messages)) => messages,
            Err(malformed) => vec![Err(malformed)],
        };
        messages
            .into_iter()
            .filter_map(|message| match message {
                Ok(Message::Request { id, method, params }) => Some(self.answer(id, &method, &params)),
                Ok(Message::Notification { .. } | Message::Response { .. }) => None,
                Err(malformed) => Some(RequestRefusal::malformed(&malformed).into_message()),
            })
            .collect()
    }

    fn answer(&self, id: RequestId, method: &Method, params: &IndexedJson) -> Message {
        match method {
            Method::Initialize if !meta::has_envelope(params) => match read_client(params) {
                Ok(client) => Message::result(id, self.initialized(&client).into()),
                Err(error) => Message::error(id, error),
            },
            Method::Ping => Message::result(id, "{}".into()),
            _ => Message::error(id, self.refusal()),
        }
    }

    /// The result of `initialize`, with the upgrade as its only capability.
    fn initialized(&self, client: &ClientInfo) -> String {
        tracing::info!(client = %client.display(), endpoint = %self.endpoint, "a client has to log in elsewhere");
        let server = ClientInfo::gateway_implementation();
        let (revision, server) = (json::quote(client.revision.as_str()), String::from_utf8_lossy(&server));
        let upgrade = self.upgrade();
        format!(r#"{{"protocolVersion":{revision},"capabilities":{{}},"serverInfo":{server},"upgrade":{upgrade}}}"#)
    }

    fn refusal(&self) -> ErrorObject {
        let Self { endpoint, transport, .. } = self;
        let message =
            format!("Login required: nothing is served on standard input; connect to {endpoint} by {transport}");
        ErrorObject::with_data(ErrorObject::INVALID_REQUEST, &message, &json!({ "upgrade": self.upgrade() }))
    }

    fn upgrade(&self) -> Value {
        json!({ "endpoint": self.endpoint, "transport": self.transport })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answers(input: &str) -> Vec<Value> {
        let offer = UpgradeOffer {
            endpoint: "https://mcp.example.com/sse".to_owned(),
            transport: "http+sse",
            max_message: 1_000,
        };
        let mut output = Vec::new();
        offer.serve(input.as_bytes(), &mut output).await;
        output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn upgrade() -> Value {
        json!({ "endpoint": "https://mcp.example.com/sse", "transport": "http+sse" })
    }

    #[tokio::test]
    async fn a_legacy_client_finds_the_upgrade_in_its_handshake() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#;
        let [answer] = &answers(initialize).await[..] else { panic!("one answer") };
        let result = &answer["result"];
        assert_eq!((&result["protocolVersion"], &result["capabilities"]), (&json!("2024-11-05"), &json!({})));
        assert_eq!((&result["serverInfo"]["name"], &result["upgrade"]), (&json!("lockkeeper"), &upgrade()));
    }

    #[tokio::test]
    async fn every_call_of_either_era_is_refused_with_the_upgrade() {
        let envelope = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let modern =
            |id: u8, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{envelope}}}"#);
        let input = [
            modern(1, "server/discover"),
            modern(2, "tools/call"),
            modern(3, "initialize"),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            r#"[{"jsonrpc":"2.0","id":4,"method":"tools/list"}]"#.to_owned(),
        ];
        let answers = answers(&input.join("\n")).await;
        assert_eq!(answers.len(), 4);
        for (answer, id) in answers.iter().zip(1..) {
            assert_eq!((&answer["id"], &answer["error"]["data"]["upgrade"]), (&json!(id), &upgrade()), "{answer}");
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_answered_and_a_ping_too() {
        let input = format!("garbage\n{}\n{}", "x".repeat(2_000), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let codes: Vec<Value> = answers(&input).await.iter().map(|answer| answer["error"]["code"].clone()).collect();
        assert_eq!(codes, [json!(-32700), json!(-32600), Value::Null]);
    }
}
