//! Rewrites messages of one backend for the merged endpoint.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::names;
use crate::{
    mcp::{
        ErrorObject, Event, Method, Notification, Outcome, Payload, Revision, ServerRequest, extensions,
        json::{self, At, Edits},
        meta,
        methods::Paths,
    },
    model::BackendId,
};

/// The `_meta` key that names the backend in a server request.
const BACKEND_KEY: &str = "lockkeeper/backend";

/// Path of requests inside a result.
const INPUT_REQUESTS: Paths = &[&[At::Key("inputRequests"), At::Member]];

/// Rewrites one backend's messages for a client of the merged endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Rewriter {
    pub(crate) backend: BackendId,
    /// True if server requests name the backend, because the client sees several.
    pub(crate) names_server: bool,
}

impl Rewriter {
    /// Rewrites one event of the reply to a call of `method`.
    pub(crate) fn event(&self, method: &Method, event: Event) -> Event {
        match event {
            Event::Notified(notification) => Event::Notified(self.notification(notification)),
            Event::Asked(question) => Event::Asked(self.question(question)),
            Event::Done(Outcome::Complete(result)) => {
                let result = self.uris(result, || method.uris());
                // requests inside of a task are rewritten like server requests (2026-07-28, tasks extension)
                let result = if method.holds_input_requests() { self.input_requests(&result) } else { result };
                Event::Done(Outcome::Complete(self.task_ids(result, |result| method.task_ids_in(result))))
            }
            Event::Done(Outcome::Failed(error)) => Event::Done(Outcome::Failed(self.error(error))),
            Event::Done(Outcome::InputRequired(result)) => {
                Event::Done(Outcome::InputRequired(self.input_requests(&result)))
            }
        }
    }

    /// Rewrites a notification: its URI, or its logger to `<backend>/<logger>`, or `<backend>` if it has none.
    pub(crate) fn notification(&self, told: Notification) -> Notification {
        let Notification { method, params } = told;
        let params = if method == Method::LoggingMessage {
            let logger = params.string("logger");
            let logger = logger.map_or_else(|| self.backend.to_string(), |logger| format!("{}/{logger}", self.backend));
            params.with("logger", &json::quote(&logger))
        } else {
            self.uris(params, || method.uris())
        };
        let params = if method.holds_input_requests() { self.input_requests(&params) } else { params };
        let params = self.task_ids(params, |_| method.task_ids());
        Notification { method, params }
    }

    /// Rewrites the task ids at `places`.
    fn task_ids(&self, payload: Payload, places: impl FnOnce(&Payload) -> Paths) -> Payload {
        if !may_hold_task_ids(payload.json()) {
            return payload;
        }
        payload.rewrite(places(&payload), |text| {
            Some(json::quote(&names::merged_task_id(&self.backend, &json::unquote(text)?)))
        })
    }

    /// Rewrites the URIs at `places`.
    pub(crate) fn uris(&self, payload: Payload, places: impl FnOnce() -> Paths) -> Payload {
        if !may_hold_uris(payload.json()) {
            return payload;
        }
        payload.rewrite(places(), |text| self.uri(text))
    }

    /// Rewrites the JSON text of a URI; `None` if it stays unchanged.
    pub(crate) fn uri(&self, text: &str) -> Option<String> {
        names::merged_uri(&self.backend, &json::unquote(text)?).map(|uri| json::quote(&uri))
    }

    fn question(&self, question: ServerRequest) -> ServerRequest {
        let ServerRequest { method, params, answer } = question;
        ServerRequest { params: self.asked(&method, &params), method, answer }
    }

    fn input_requests(&self, result: &Payload) -> Payload {
        result.rewrite(INPUT_REQUESTS, |request| self.input_request(request, result.revision))
    }

    /// Rewrites a server request in a result (2026-07-28, MRTR); `None` if it stays unchanged.
    fn input_request(&self, text: &str, revision: Revision) -> Option<String> {
        let request = Payload::new(revision, Bytes::copy_from_slice(text.as_bytes()));
        let method = Method::parse(&request.string("method")?);
        let params = request.object()?.get("params").unwrap_or_default();
        let params = Payload::new(revision, Bytes::copy_from_slice(params.as_bytes()));
        let shown = self.asked(&method, &params);
        if shown == params {
            return None;
        }
        let request = request.with("params", &String::from_utf8_lossy(shown.json()));
        Some(String::from_utf8_lossy(request.json()).into_owned())
    }

    /// Rewrites the parameters of a server request. A client must show which server sends it, but sees only the
    /// gateway. So the message of an elicitation names the server, and so does `_meta`.
    fn asked(&self, method: &Method, params: &Payload) -> Payload {
        let params = self.task_ids(self.uris(params.clone(), || method.uris()), |_| method.task_ids());
        if !self.names_server {
            return params;
        }
        let params = if *method == Method::Elicit {
            params.rewrite(&[&[At::Key("message")]], |text| {
                json::unquote(text).map(|message| json::quote(&format!("{message} (from {})", self.backend)))
            })
        } else {
            params
        };
        let held = params.member(meta::META).map(str::to_owned);
        let held = Bytes::from(held.unwrap_or_else(|| "{}".to_owned()));
        let named = json::with_member(&held, BACKEND_KEY, &json::quote(self.backend.as_str()));
        params.with(meta::META, &String::from_utf8_lossy(&named))
    }

    /// Rewrites the resource that an error may name in `data.uri` (2024-11-05 to 2025-11-25, resources).
    fn error(&self, error: ErrorObject) -> ErrorObject {
        if !may_hold_uris(error.json()) {
            return error;
        }
        let mut edits = Edits::default();
        edits.visit(error.json(), &[At::Key("data"), At::Key("uri")], &mut |text| self.uri(text));
        let json = edits.apply(error.json());
        error.edited(json)
    }
}

/// True if the text has a member that may hold a URI. This saves parsing large results, which are mostly one string. A
/// backslash may hide a member name.
fn may_hold_uris(json: &[u8]) -> bool {
    static NAMES: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
        let endings = ["ri", "Template"];
        let further = extensions::uri_members().filter(|name| !endings.iter().any(|ending| name.ends_with(ending)));
        let quoted = |name: &str| Finder::new(&format!("{name}\"")).into_owned();
        endings.into_iter().chain(further).map(quoted).collect()
    });
    NAMES.iter().any(|name| name.find(json).is_some()) || json::may_escape_letters(json)
}

/// True if the text may name a task. Most messages do not, and are not parsed.
fn may_hold_task_ids(json: &[u8]) -> bool {
    static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("taskId"));
    json::may_hold(json, &ID)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn b1() -> Rewriter {
        Rewriter { backend: BackendId::parse("b1").unwrap(), names_server: true }
    }

    fn payload(text: &str) -> Payload {
        Payload::new(Revision::V2025_11_25, Bytes::copy_from_slice(text.as_bytes()))
    }

    fn shown(method: &Method, text: &str) -> String {
        let Event::Done(Outcome::Complete(result)) = b1().event(method, Event::Done(Outcome::Complete(payload(text))))
        else {
            panic!("a result")
        };
        String::from_utf8(result.json().to_vec()).unwrap()
    }

    fn told(method: Method, text: &str) -> String {
        let told = b1().notification(Notification { method, params: payload(text) });
        String::from_utf8(told.params.json().to_vec()).unwrap()
    }

    #[test]
    fn uris_are_rewritten_wherever_a_result_holds_them() {
        // G03
        assert_snapshot!(shown(&Method::ResourcesRead, r#"{"contents":[{"uri":"file:///a","text":"x"}]}"#),
            @r#"{"contents":[{"uri":"b1+file:///a","text":"x"}]}"#);
        assert_snapshot!(shown(&Method::ToolsCall, r#"{"content":[{"type":"resource_link","uri":"a:b"},{"type":"resource","resource":{"uri":"ui://x","text":"uri"}},{"type":"text","text":"\"uri\":\"a:b\""}]}"#),
            @r#"{"content":[{"type":"resource_link","uri":"b1+a:b"},{"type":"resource","resource":{"uri":"ui://b1+x","text":"uri"}},{"type":"text","text":"\"uri\":\"a:b\""}]}"#);
        assert_snapshot!(shown(&Method::PromptsGet, r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b","text":""}}}]}"#),
            @r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"b1+a:b","text":""}}}]}"#);
        assert_snapshot!(shown(&Method::ToolsCall, r#"{"content":[{"type":"resource_link","\u0075ri":"a:b"}]}"#),
            @r#"{"content":[{"type":"resource_link","\u0075ri":"b1+a:b"}]}"#);
    }

    #[test]
    fn a_notification_tells_its_backend() {
        // G06
        assert_snapshot!(told(Method::LoggingMessage, r#"{"level":"info","logger":"db","data":1}"#),
            @r#"{"level":"info","logger":"b1/db","data":1}"#);
        assert_snapshot!(told(Method::LoggingMessage, r#"{"level":"info","data":1.0}"#),
            @r#"{"level":"info","data":1.0,"logger":"b1"}"#);
        assert_snapshot!(told(Method::ResourceUpdated, r#"{"uri":"file:///a"}"#), @r#"{"uri":"b1+file:///a"}"#);
        assert_snapshot!(told(Method::Progress, r#"{"progressToken":1,"progress":0.50}"#),
            @r#"{"progressToken":1,"progress":0.50}"#);
    }

    #[test]
    fn a_question_tells_who_asks() {
        let (question, _answered) =
            ServerRequest::new(Method::Elicit, payload(r#"{"message":"Sure?","requestedSchema":{}}"#));
        let question = b1().question(question);
        assert_snapshot!(String::from_utf8_lossy(question.params.json()),
            @r#"{"message":"Sure? (from b1)","requestedSchema":{},"_meta":{"lockkeeper/backend":"b1"}}"#);
    }

    #[test]
    fn questions_that_end_a_call_tell_who_asks() {
        let asked = |rewriter: Rewriter, text: &str| {
            let event = Event::Done(Outcome::InputRequired(payload(text)));
            let Event::Done(Outcome::InputRequired(result)) = rewriter.event(&Method::ToolsCall, event) else {
                panic!("questions")
            };
            String::from_utf8(result.json().to_vec()).unwrap()
        };
        let text = r#"{ "resultType":"input_required","inputRequests":{"a\u0062": {"method":"elicitation/create","x":1.0,"params":{"message":"Sure?"}},"r":{"method":"roots/list"}, "s":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"a:b"}}}],"_meta":{"v/x":1}}},"odd":7,"none":{}},"requestState":"a:b \u0041" }"#;
        assert_snapshot!(asked(b1(), text), @r#"{ "resultType":"input_required","inputRequests":{"a\u0062": {"method":"elicitation/create","x":1.0,"params":{"message":"Sure? (from b1)","_meta":{"lockkeeper/backend":"b1"}}},"r":{"method":"roots/list","params":{"_meta":{"lockkeeper/backend":"b1"}}}, "s":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource","resource":{"uri":"b1+a:b"}}}],"_meta":{"v/x":1,"lockkeeper/backend":"b1"}}},"odd":7,"none":{}},"requestState":"a:b \u0041" }"#);
        let alone = Rewriter { names_server: false, ..b1() };
        assert_eq!(asked(alone.clone(), text), text.replace("\"uri\":\"a:b\"", "\"uri\":\"b1+a:b\""));
        let state = r#"{"resultType":"input_required","requestState":"s"}"#;
        assert_eq!(asked(alone, state), state);
    }

    #[test]
    fn an_error_names_the_resource_as_the_client_does() {
        let error = ErrorObject::with_data(-32002, "gone", &serde_json::json!({ "uri": "a:b" }));
        assert!(String::from_utf8_lossy(b1().error(error).json()).contains("b1+a:b"));
    }

    proptest! {
        #[test]
        fn bytes_beside_the_edited_members_are_untouched(
            space in "[ \\n\\t]{0,3}", number in "-?[1-9][0-9]{0,30}(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
            text in "[a-z\\\\u0041 é🦀]{0,12}", uri in "x[a-z]{0,7}:[a-z/]{0,8}",
        ) {
            let text = json::quote(&text);
            let around = |uri: &str, link: &str| format!(
                "{{{space}\"n\"{space}:{number},\"n\":{text},{space}\"content\":[{space}{{\"uri\"{space}:{space}{uri},\"x\":{number} }},\
                 {number},{{\"resource\":{{\"link\":{link},\"uri\":{uri}}}{space}}}]{space},\"uri\":\"a:b\"}}{space}"
            );
            let (one, two) = (json::quote(&uri), json::quote("https://x"));
            let new = json::quote(&format!("b1+{uri}"));
            prop_assert_eq!(shown(&Method::ToolsCall, &around(&one, &two)), around(&new, &two));
        }
    }
}
