//! What is said to one client, in its version: the last step before its wire, and the first after it for its answers.
//! Knows nothing of streams.
//!
//! What the client's version has no form for ends as `translation` 4.6 says: the one who can act on it gets an error, a
//! notification is dropped; each is counted, and logged the first time.

use std::sync::Arc;

use super::settings::Settings;
use crate::mcp::{
    ClientInfo, ErrorObject, Facts, Method, Notification, Outcome, Payload, Revision, Untranslatable, json,
    translate::{Cause, Kind, Profile},
};

/// How one client is spoken to about one call.
#[derive(Debug, Clone)]
pub(crate) struct Spoken {
    client: Arc<ClientInfo>,
    profile: Profile,
    method: Method,
    /// What `resources/read` asked for.
    uri: Option<String>,
}

/// What becomes of a client's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Understood {
    /// It goes to the server.
    Answer(Result<Payload, ErrorObject>),
    /// It breaks a bound that the lowered form could not express: the question with the bound in its message, and the
    /// error for the server where it is asked no more.
    AskAgain(Payload, ErrorObject),
}

// === impl Spoken ===

impl Spoken {
    /// How `client` is spoken to about a call of `method`.
    pub(crate) fn about(client: &Arc<ClientInfo>, settings: &Settings, method: Method, params: &Payload) -> Self {
        let uri = if method == Method::ResourcesRead { params.string("uri") } else { None };
        Self { client: Arc::clone(client), profile: settings.profile(client), method, uri }
    }

    /// The end of the call. What no server says that it wrote is the gateway's own.
    pub(crate) fn outcome(&self, outcome: Outcome) -> Outcome {
        let gateway = ClientInfo::gateway_implementation();
        let facts = self.facts(Kind::Result, &self.method);
        let facts = Facts { uri: self.uri.as_deref(), server: Some(&gateway), ..facts };
        outcome.into_revision(self.revision(), &facts).unwrap_or_else(|refusal| {
            refusal.report();
            Outcome::Failed(refusal.error())
        })
    }

    /// What the server tells; `None` where the client's version does not know it.
    pub(crate) fn notification(&self, told: Notification) -> Option<Notification> {
        let Notification { method, params } = told;
        match params.into_revision(self.revision(), &self.facts(Kind::Notification, &method)) {
            Ok(params) => Some(Notification { method: method.of_tasks_in(self.revision()), params }),
            Err(refusal) => {
                refusal.report();
                None
            }
        }
    }

    /// What the server asks.
    ///
    /// # Errors
    ///
    /// The error for the server, where the client's version cannot be asked for it.
    pub(crate) fn question(&self, method: &Method, params: &Payload) -> Result<Payload, ErrorObject> {
        params.clone().into_revision(self.revision(), &self.facts(Kind::Question, method)).map_err(|refusal| {
            refusal.report();
            refusal.error()
        })
    }

    /// Why the client's version cannot be asked this; `None` where it can.
    pub(crate) fn refusal(&self, method: &Method, params: &Payload) -> Option<Untranslatable> {
        let asked = params.clone().into_revision(self.revision(), &self.facts(Kind::Question, method));
        asked.err().inspect(Untranslatable::report)
    }

    /// What the client answers to the question `asked`, as its server asked it.
    pub(crate) fn answer(&self, method: &Method, asked: &Payload, answer: Result<Payload, ErrorObject>) -> Understood {
        let Ok(answer) = answer else { return Understood::Answer(answer) };
        let facts = Facts { question: Some(asked), ..self.facts(Kind::Answer, method) };
        match answer.into_revision(asked.revision, &facts) {
            Ok(answer) => Understood::Answer(Ok(answer)),
            Err(refusal) => self.not_understood(method, asked, &refusal),
        }
    }

    fn not_understood(&self, method: &Method, asked: &Payload, refusal: &Untranslatable) -> Understood {
        if let Cause::AskAgain { .. } = refusal.cause
            && let Some(message) = asked.string("message")
            && let Ok(again) =
                self.question(method, &asked.with("message", &json::quote(&format!("{message} ({refusal})"))))
        {
            return Understood::AskAgain(again, refusal.error());
        }
        let refusal = refusal.clone().of(asked.origin());
        refusal.report();
        Understood::Answer(Err(refusal.error()))
    }

    fn revision(&self) -> Revision {
        self.client.revision
    }

    fn facts<'a>(&'a self, kind: Kind, method: &'a Method) -> Facts<'a> {
        Facts { profile: self.profile, client: Some(&*self.client), ..Facts::new(kind, method) }
    }
}
