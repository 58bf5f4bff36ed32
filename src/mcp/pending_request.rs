//! A server request that is waiting for the client's answer.

use bytes::Bytes;

use super::{
    Answer, ErrorObject, Method, Payload, ServerRequest,
    client_translator::{ClientTranslator, TranslatedAnswer},
    meta,
};

/// Maximum number of times that one request is sent because its answer breaks a bound.
const MAX_TRIES: u8 = 3;

/// A server request on its way to the client.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    method: Method,
    /// The parameters as the server wrote them.
    asked: Payload,
    /// The parameters as the client gets them.
    shown: Payload,
    answer: Answer,
    translator: ClientTranslator,
    tries: u8,
}

impl PendingRequest {
    /// Translates the request to the client's version.
    ///
    /// # Errors
    ///
    /// If the client's version has no form for it: the receiver of its answer, and the error for its server.
    pub(crate) fn new(question: ServerRequest, translator: &ClientTranslator) -> Result<Self, (Answer, ErrorObject)> {
        let ServerRequest { method, params, answer } = question;
        match translator.question(&method, &params) {
            Ok(shown) => Ok(Self { method, asked: params, shown, answer, translator: translator.clone(), tries: 1 }),
            Err(error) => Err((answer, error)),
        }
    }

    pub(crate) const fn method(&self) -> &Method {
        &self.method
    }

    /// The parameters as the client gets them.
    pub(crate) const fn shown(&self) -> &Payload {
        &self.shown
    }

    /// The `Implementation` of the server; `None` if it is not known.
    pub(crate) fn server(&self) -> Option<&str> {
        self.asked.server()
    }

    /// Waits until the server withdraws the request.
    pub(crate) async fn withdrawn(&mut self) {
        self.answer.withdrawn().await;
    }

    /// Forwards the client's progress, which has the server's own token.
    pub(crate) fn progress(&self, params: Payload) {
        self.answer.progress(params);
    }

    /// Sends progress to a server that gave a progress token, so that it does not time out (`translation` 4b.6). `turn`
    /// must increase with each call.
    pub(crate) fn reassure(&self, turn: u32) {
        let Some(token) = meta::progress_token(&self.asked) else { return };
        let params = format!(r#"{{"progressToken":{},"progress":{turn}}}"#, String::from_utf8_lossy(&token));
        self.answer.progress(Payload::new(self.asked.revision, params.into()));
    }

    pub(crate) fn refuse(self, error: ErrorObject) {
        metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
        self.fail(error);
    }

    /// Answers the server with an error.
    pub(crate) fn fail(self, error: ErrorObject) {
        self.answer.give(Err(error));
    }

    /// Answers the server in place of a client that has disconnected: an elicitation is cancelled, and any other
    /// request fails (`translation` 4b.6).
    pub(crate) fn abandon(self) {
        self.answer.give(match self.method {
            Method::Elicit => Ok(Payload::new(self.asked.revision, Bytes::from_static(br#"{"action":"cancel"}"#))),
            _ => Err(ErrorObject::internal("the client did not come back with an answer")),
        });
    }

    /// Forwards the client's answer. Returns the request if the client must be asked again.
    pub(crate) fn answered(self, given: Result<Payload, ErrorObject>) -> Option<Box<Self>> {
        match self.translator.answer(&self.method, &self.asked, given) {
            TranslatedAnswer::Answer(answer) => {
                self.answer.give(answer);
                None
            }
            TranslatedAnswer::AskAgain(_, error) if self.tries >= MAX_TRIES => {
                self.answer.give(Err(error));
                None
            }
            TranslatedAnswer::AskAgain(shown, _) => Some(Box::new(Self { shown, tries: self.tries + 1, ..self })),
        }
    }
}
