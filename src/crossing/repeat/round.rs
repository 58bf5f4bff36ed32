//! The requests and the state with which a server of 2026-07-28 ended a call.

use bytes::Bytes;

use crate::mcp::{
    AnswerReceiver, ClientInfo, Method, Payload, ServerRequest, Untranslatable, client_translator::ClientTranslator,
    declared::missing_strictly, json::Object,
};

/// Maximum number of requests in one round, repeated keys included.
const MAX_REQUESTS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    /// The requests, in the server's order; empty if the server only wants to be called again.
    pub(crate) entries: Vec<RoundQuestion>,
    /// The JSON text of the state, if any.
    pub(crate) state: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoundQuestion {
    /// Its key in the server's result.
    pub(crate) key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub(crate) method: Method,
    params: Payload,
}

// === impl Round ===

impl Round {
    /// Reads an `InputRequiredResult` (2026-07-28, MRTR).
    ///
    /// # Errors
    ///
    /// A description of the error in it.
    pub(crate) fn read(ended: &Payload) -> Result<Self, &'static str> {
        let result = ended.object().ok_or("the server requires input and says not what")?;
        let state = result.get("requestState").filter(|state| *state != "null").map(str::to_owned);
        let mut entries: Vec<RoundQuestion> = Vec::new();
        if let Some(requests) = result.get("inputRequests").filter(|requests| *requests != "null") {
            let requests = Object::parse(requests.as_bytes()).ok_or("the server's `inputRequests` are no object")?;
            if requests.len() > MAX_REQUESTS {
                return Err("the server sent more than 64 requests at once");
            }
            for (key, request) in requests.iter() {
                // the last of repeated members counts, as in JavaScript
                entries.retain(|entry| entry.key != key);
                entries.push(RoundQuestion::read(key, request, ended)?);
            }
        }
        if entries.is_empty() && state.is_none() {
            return Err("the server requires input, and gives neither questions nor a state");
        }
        Ok(Self { entries, state })
    }
}

// === impl RoundQuestion ===

impl RoundQuestion {
    fn read(key: &str, request: &str, ended: &Payload) -> Result<Self, &'static str> {
        let request = Object::parse(request.as_bytes()).ok_or("one of the server's questions is no object")?;
        let method = request.string("method").map(|name| Method::parse(&name));
        let method =
            method.filter(|method| matches!(method, Method::CreateMessage | Method::Elicit | Method::RootsList));
        let method = method.ok_or("the server asks in a way that MCP 2026-07-28 does not have")?;
        let params = match request.get("params") {
            Some(params) if params.starts_with('{') => Bytes::copy_from_slice(params.as_bytes()),
            None if method == Method::RootsList => Bytes::new(),
            _ => return Err("one of the server's questions has no parameters"),
        };
        let params = Payload::new(ended.revision, params);
        Ok(Self {
            key: key.to_owned(),
            method,
            params: match ended.origin() {
                Some(origin) => params.written_by(origin),
                None => params,
            },
        })
    }

    /// The reason why this client cannot get it: undeclared capability, or no form in its version.
    pub(crate) fn refusal(&self, client: &ClientInfo, translator: &ClientTranslator) -> Option<Untranslatable> {
        let Some(feature) = missing_strictly(client, &self.method, &self.params) else {
            return translator.refusal(&self.method, &self.params);
        };
        let refusal = Untranslatable::undeclared(feature, &self.params, client);
        refusal.report();
        Some(refusal)
    }

    /// The request for the client, and the receiver of its answer.
    pub(crate) fn question(&self) -> (ServerRequest, AnswerReceiver) {
        ServerRequest::new(self.method.clone(), self.params.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    fn read(text: &'static str) -> Result<Round, &'static str> {
        Round::read(&Payload::new(Revision::V2026_07_28, Bytes::from_static(text.as_bytes())))
    }

    #[test]
    fn a_state_is_kept_verbatim() {
        let round = read(r#"{"requestState" : "\u0053T\/" ,"inputRequests":{"r":{"method":"roots/list"}}}"#).unwrap();
        assert_eq!(round.state.as_deref(), Some(r#""\u0053T\/""#));
        assert_eq!((round.entries[0].key.as_str(), &round.entries[0].method), ("r", &Method::RootsList));
        assert!(round.entries[0].params.is_absent());
    }

    #[test]
    fn an_invalid_round_is_detected() {
        for text in [
            "{}",
            "[]",
            r#"{"inputRequests":{}}"#,
            r#"{"inputRequests":[]}"#,
            r#"{"inputRequests":null,"requestState":null}"#,
            r#"{"inputRequests":{"a":1},"requestState":"s"}"#,
            r#"{"inputRequests":{"a":{"method":"ping"}},"requestState":"s"}"#,
            r#"{"inputRequests":{"a":{"method":"elicitation/create"}}}"#,
            r#"{"inputRequests":{"a":{"method":"roots/list","params":[]}}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let state_only = read(r#"{"inputRequests":{},"requestState":"s"}"#).unwrap();
        assert!(state_only.entries.is_empty() && state_only.state.is_some());
    }

    #[test]
    fn too_many_requests_are_refused_whatever_their_keys() {
        let round = |keys: &mut dyn Iterator<Item = usize>| {
            let requests: Vec<String> = keys.map(|key| format!(r#""{key}":{{"method":"roots/list"}}"#)).collect();
            let text = format!(r#"{{"inputRequests":{{{}}}}}"#, requests.join(","));
            Round::read(&Payload::new(Revision::V2026_07_28, text.into()))
        };
        assert_eq!(round(&mut (0..MAX_REQUESTS)).unwrap().entries.len(), MAX_REQUESTS);
        assert!(round(&mut (0..=MAX_REQUESTS)).is_err());
        assert!(round(&mut std::iter::repeat_n(7, MAX_REQUESTS + 1)).is_err());
    }

    #[test]
    fn the_last_of_repeated_questions_counts() {
        let round =
            read(r#"{"inputRequests":{"a":{"method":"roots/list"},"a":{"method":"elicitation/create","params":{}}}}"#);
        let methods: Vec<Method> = round.unwrap().entries.into_iter().map(|entry| entry.method).collect();
        assert_eq!(methods, [Method::Elicit]);
    }
}
