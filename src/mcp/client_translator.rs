//! Translation of messages to a client into its version, and of its answers into the server's.
//!
//! A message without a form in the client's version ends as `translation` 4.6 requires: the side that can act gets an
//! error, and a notification is dropped. Each case is counted, and logged the first time for its server.

use std::sync::Arc;

use super::{
    ClientInfo, ErrorObject, Facts, LackingFeature, Method, Notification, Outcome, Payload, Revision, Untranslatable,
    json,
    translate::{Cause, Kind, Profile},
};

/// Translator of the messages about one call.
#[derive(Debug, Clone)]
pub(crate) struct ClientTranslator {
    client: Arc<ClientInfo>,
    profile: Profile,
    method: Method,
    /// URI of a `resources/read`.
    uri: Option<String>,
}

/// A client's answer in the version of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TranslatedAnswer {
    /// The answer for the server.
    Answer(Result<Payload, ErrorObject>),
    /// The answer breaks a bound that the request could not express in the client's version. Has the request with the
    /// bound in its message, to ask again, and the error for the server otherwise.
    AskAgain(Payload, ErrorObject),
}

// === impl ClientTranslator ===

impl ClientTranslator {
    /// Creates a translator for a call of `method` with these parameters.
    pub(crate) fn new(client: &Arc<ClientInfo>, profile: Profile, method: &Method, params: &Payload) -> Self {
        let uri = if *method == Method::ResourcesRead { params.string("uri") } else { None };
        Self { client: Arc::clone(client), profile, method: method.clone(), uri }
    }

    /// True for a call of a method that MCP does not define.
    pub(crate) const fn is_of_extension(&self) -> bool {
        self.method.is_of_extension()
    }

    /// Translates the outcome of the call. A result from no known server counts as the gateway's own.
    pub(crate) fn outcome(&self, outcome: Outcome) -> Outcome {
        let gateway = ClientInfo::gateway_implementation();
        let facts = self.facts(Kind::Result, &self.method);
        let facts = Facts { uri: self.uri.as_deref(), server: Some(&gateway), ..facts };
        outcome.into_revision(self.revision(), &facts).unwrap_or_else(|refusal| {
            refusal.report();
            Outcome::Failed(refusal.error())
        })
    }

    /// Translates a notification; `None` if the client's version does not have it.
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

    /// Translates a server request.
    ///
    /// # Errors
    ///
    /// The error for the server, if the client's version has no form for the request.
    pub(crate) fn question(&self, method: &Method, params: &Payload) -> Result<Payload, ErrorObject> {
        let asked = params.clone().into_revision(self.revision(), &self.facts(Kind::ServerRequest, method));
        match asked {
            Ok(asked) => {
                self.note_lost_context(method, params, &asked);
                Ok(asked)
            }
            Err(refusal) => {
                refusal.report();
                Err(refusal.error())
            }
        }
    }

    /// Why the client's version has no form for a request; `None` if it has one.
    pub(crate) fn refusal(&self, method: &Method, params: &Payload) -> Option<Untranslatable> {
        let asked = params.clone().into_revision(self.revision(), &self.facts(Kind::ServerRequest, method));
        asked.err().inspect(Untranslatable::report)
    }

    /// Translates the client's answer to the request `asked`, which is in the server's version.
    pub(crate) fn answer(
        &self,
        method: &Method,
        asked: &Payload,
        answer: Result<Payload, ErrorObject>,
    ) -> TranslatedAnswer {
        let Ok(answer) = answer else { return TranslatedAnswer::Answer(answer) };
        let facts = Facts { question: Some(asked), ..self.facts(Kind::Answer, method) };
        match answer.into_revision(asked.revision, &facts) {
            Ok(answer) => TranslatedAnswer::Answer(Ok(answer)),
            Err(refusal) => self.not_understood(method, asked, &refusal),
        }
    }

    fn not_understood(&self, method: &Method, asked: &Payload, refusal: &Untranslatable) -> TranslatedAnswer {
        if let Cause::AskAgain { .. } = refusal.cause
            && let Some(message) = asked.string("message")
            && let Ok(again) =
                self.question(method, &asked.with("message", &json::quote(&format!("{message} ({refusal})"))))
        {
            return TranslatedAnswer::AskAgain(again, refusal.error());
        }
        let refusal = refusal.clone().of(asked.origin());
        refusal.report();
        TranslatedAnswer::Answer(Err(refusal.error()))
    }

    /// Reports that a sampling request lost its context, because the client did not declare support (`translation` 3.3,
    /// INC).
    fn note_lost_context(&self, method: &Method, params: &Payload, asked: &Payload) {
        let has_context = |params: &Payload| params.member("includeContext").is_some();
        if *method == Method::CreateMessage && has_context(params) && !has_context(asked) {
            Untranslatable::undeclared(LackingFeature::SamplingContext, params, &self.client).report();
        }
    }

    fn revision(&self) -> Revision {
        self.client.revision
    }

    fn facts<'a>(&'a self, kind: Kind, method: &'a Method) -> Facts<'a> {
        Facts { profile: self.profile, client: Some(&*self.client), ..Facts::new(kind, method) }
    }
}
