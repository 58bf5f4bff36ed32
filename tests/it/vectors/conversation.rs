//! Selects the conversation for a vector, by the form of its input and its expectation.

use serde_json::Value;

use super::{
    answers_to_client, answers_to_server, forwarding, inputs, leaving, listening, plan, probing, rounds, scene::Scene,
    stage::Transport, steps, suspension, vector::Vector,
};

/// The conversation that carries a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversation {
    ToServer,
    ToClient,
    AnswerToClient,
    Stream,
    AnswerToServer,
    Greeting,
    Suspension,
    /// A call of a server without sessions that continues with a sealed state.
    Return,
    /// Detection of a server's era by its first answer.
    Probe,
    /// Notifications for listens.
    Listen,
    /// A listen that is reopened at a server.
    Relisten,
    /// The end of the gateway.
    Shutdown,
    /// The client disconnects.
    Leave,
    /// Answers to the input requests of a task.
    Inputs,
    /// A sequence of steps.
    Steps,
}

// === impl Scene ===

impl Scene<'_> {
    /// Plays the vector.
    pub(super) async fn play(self) -> Result<(), String> {
        match self.vector.conversation().ok_or("no conversation carries it")? {
            Conversation::ToServer => forwarding::to_server(self).await,
            Conversation::ToClient => forwarding::to_client(self).await,
            Conversation::AnswerToClient => answers_to_client::answers(self).await,
            Conversation::Stream => answers_to_client::opens_a_stream(self).await,
            Conversation::AnswerToServer => answers_to_server::answers(self).await,
            Conversation::Greeting => answers_to_server::greets_again(self).await,
            Conversation::Suspension => suspension::plays(self).await,
            Conversation::Return => rounds::comes_back(self).await,
            Conversation::Probe => probing::plays(self).await,
            Conversation::Listen => listening::tells(self).await,
            Conversation::Relisten => listening::listens_again(self).await,
            Conversation::Leave => leaving::plays(self).await,
            Conversation::Inputs => inputs::plays(self).await,
            Conversation::Steps => steps::plays(self).await,
            Conversation::Shutdown => Err("it needs a gateway to end".to_owned()),
        }
    }
}

// === impl Vector ===

impl Vector {
    /// The conversation for this vector; `None` if there is none.
    pub(super) fn conversation(&self) -> Option<Conversation> {
        self.by_state().or_else(|| self.by_message())
    }

    /// Selects by the assumed state, or by an event.
    fn by_state(&self) -> Option<Conversation> {
        let given = self.given();
        let event = given["event"].as_str().or_else(|| given["http"]["event"].as_str()).unwrap_or_default();
        let to_modern = self.to == plan::MODERN;
        let withdrawn = given["method"] == "notifications/cancelled" && self.direction == "backend>client";
        match given["params"]["requestState"].as_str() {
            _ if self.ctx["park"].is_object() || (withdrawn && to_modern) => Some(Conversation::Suspension),
            _ if self.ctx["task_inputs"].is_object() => Some(Conversation::Inputs),
            _ if self.ctx.get("probe").is_some() || given.get("closed").is_some() => Some(Conversation::Probe),
            _ if event.contains("shutdown") => Some(Conversation::Shutdown),
            _ if !event.is_empty() => Some(Conversation::Leave),
            _ if given.get("sse").is_some() => Some(Conversation::Stream),
            _ if self.method.as_deref() == Some("subscriptions/listen") && given.get("result").is_some() => {
                Some(Conversation::Relisten)
            }
            _ if self.ctx["listens"].is_object() && self.expected().is_some() => Some(Conversation::Listen),
            Some(state) if state.starts_with("gw1.") && self.direction == "client>backend" => {
                Some(Conversation::Return)
            }
            _ => None,
        }
    }

    /// Selects by input and expectation.
    fn by_message(&self) -> Option<Conversation> {
        let (given, expect) = (self.given(), &self.expect);
        let message = self.expected().is_some();
        let speaks = self.message().get("jsonrpc").is_some();
        match self.direction.as_str() {
            _ if given.get("parts").is_some() => Some(Conversation::ToClient),
            "client>backend" if speaks && message => Some(Conversation::ToServer),
            "backend>client" if speaks && message => Some(Conversation::ToClient),
            "backend>client" if speaks && self.answered().is_some() && self.steps("client", "out").count() == 1 => {
                Some(Conversation::ToClient)
            }
            "client>backend" | "backend>client" if speaks && expect["seq"].is_array() => Some(Conversation::Steps),
            "backend>client" if given.is_array() => Some(Conversation::ToClient),
            "client>gateway" if message || expect.get("http").is_some() || expect.get("sse").is_some() => {
                Some(Conversation::AnswerToClient)
            }
            "backend>gateway" if speaks && message => Some(Conversation::AnswerToServer),
            "backend>gateway" if speaks && self.answered() == Some("initialize") => Some(Conversation::Greeting),
            _ => None,
        }
    }

    /// The error for a vector without a conversation.
    pub(super) fn unplayable(&self) -> String {
        let Self { id, direction, method, group, .. } = self;
        format!(
            "{id}: no conversation of this test carries this form ({group}, {direction}, {method:?}): add one to `Conversation`"
        )
    }

    /// The backend whose name one side prefixes to names or URIs: that side is at the merged endpoint (`translation`
    /// section 5).
    pub(super) fn merged_backend(&self) -> Option<String> {
        let (given, expected) = (self.message(), self.expected()?);
        let (shown, own) = if self.direction == "client>backend" { (&given, expected) } else { (expected, &given) };
        ["name", "uri", "taskId"].into_iter().find_map(|name| {
            let text = |message: &Value| message["params"][name].as_str().map(str::to_owned);
            let prefix = text(shown)?.strip_suffix(&text(own)?)?.to_owned();
            let backend = ["__", "+", "."].into_iter().find_map(|mark| prefix.strip_suffix(mark))?;
            (!backend.is_empty()).then(|| backend.to_owned())
        })
    }

    /// True if it needs a gateway of its own: for the merged endpoint, for limits or for the end.
    pub(super) fn is_apart(&self) -> bool {
        let message = self.message();
        let text = |name: &str| message["params"][name].as_str().unwrap_or_default();
        self.ctx.get("backend").is_some()
            || self.ctx["modern_only"] == true
            || message.get("timeout").is_some()
            || message.get("parts").is_some()
            || self.conversation() == Some(Conversation::Shutdown)
            || text("name").contains("__")
            || self.merged_backend().is_some()
            || text("cursor").starts_with("gwc1.")
    }

    /// The transports of its server.
    pub(super) fn transports(&self) -> Vec<Transport> {
        match self.ctx["transport"].as_str() {
            Some("stdio") => vec![Transport::Stdio],
            Some(_) => vec![Transport::Http],
            None if self.direction == "client>gateway" || self.expect.get("http").is_some() => vec![Transport::Http],
            None if self.given().get("sse").is_some() || self.given().get("http").is_some() => vec![Transport::Http],
            // a process for each of these is not worth its start
            None if self.is_modern() && plan::version(self) != plan::MODERN => vec![Transport::Http],
            None => vec![Transport::Http, Transport::Stdio],
        }
    }
}
