//! A server request that waits for the client's answer.

use bytes::Bytes;

use super::{
    Answer, ErrorObject, Method, Payload, ServerRequest,
    client_translator::{ClientTranslator, TranslatedAnswer},
    meta,
};

/// Maximum number of attempts of one request whose answers break a bound.
const MAX_TRIES: u8 = 3;

/// A request of a server on its way to the client.
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
    /// The request in the client's version.
    ///
    /// # Errors
    ///
    /// The place for its answer and the error for its server, if the client's version has no form for it.
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

    /// Its parameters as the client gets them.
    pub(crate) const fn shown(&self) -> &Payload {
        &self.shown
    }

    /// The `Implementation` of the server, if it is known.
    pub(crate) fn server(&self) -> Option<&str> {
        self.asked.server()
    }

    /// Waits until the server withdraws the request.
    pub(crate) async fn withdrawn(&mut self) {
        self.answer.withdrawn().await;
    }

    /// Forwards the client's progress, under the server's own token.
    pub(crate) fn progress(&self, params: Payload) {
        self.answer.progress(params);
    }

    /// Sends progress to a server that gave a token, since it would time out otherwise (`translation` 4b.6). `turn`
    /// rises.
    pub(crate) fn reassure(&self, turn: u32) {
        let Some(token) = meta::progress_token(&self.asked) else { return };
        let params = format!(r#"{{"progressToken":{},"progress":{turn}}}"#, String::from_utf8_lossy(&token));
        self.answer.progress(Payload::new(self.asked.revision, params.into()));
    }

    pub(crate) fn refuse(self, error: ErrorObject) {
        metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
        self.fail(error);
    }

    /// Answers with an error.
    pub(crate) fn fail(self, error: ErrorObject) {
        self.answer.give(Err(error));
    }

    /// Answers for a client that is gone: a dialog is cancelled, anything else fails (`translation` 4b.6).
    pub(crate) fn abandon(self) {
        self.answer.give(match self.method {
            Method::Elicit => Ok(Payload::new(self.asked.revision, Bytes::from_static(br#"{"action":"cancel"}"#))),
            _ => Err(ErrorObject::internal("the client did not come back with an answer")),
        });
    }

    /// Forwards the client's answer; returns the request if the client has to be asked again.
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
