//! Good and bad answers of endpoints.

use bytes::Bytes;
use http::{HeaderName, Response, StatusCode, header};
use serde_json::{Map, Value, json};

pub(crate) type Answer = Response<Bytes>;

pub(crate) fn status(status: StatusCode) -> Answer {
    of(status, None, Bytes::new())
}

pub(crate) fn json(status: StatusCode, body: &Value) -> Answer {
    of(status, Some((header::CONTENT_TYPE, "application/json")), body.to_string().into())
}

/// An error of an OAuth endpoint (RFC 6749 5.2).
pub(crate) fn error(code: &str) -> Answer {
    json(StatusCode::BAD_REQUEST, &json!({ "error": code }))
}

/// A good JSON answer turned into a form.
pub(crate) fn as_form(answer: Answer) -> Answer {
    let (head, body) = answer.into_parts();
    let body: Map<String, Value> = serde_json::from_slice(&body).unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs = body.iter().map(|(name, value)| (name, text(value)));
    let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    of(head.status, Some((header::CONTENT_TYPE, "application/x-www-form-urlencoded")), form.into())
}

/// A good answer with status 201.
pub(crate) fn as_created(mut answer: Answer) -> Answer {
    *answer.status_mut() = StatusCode::CREATED;
    answer
}

pub(crate) fn page(text: &'static str) -> Answer {
    of(StatusCode::OK, Some((header::CONTENT_TYPE, "text/html; charset=utf-8")), text.into())
}

pub(crate) fn redirect(to: &str) -> Answer {
    of(StatusCode::FOUND, Some((header::LOCATION, to)), Bytes::new())
}

/// 401 with a challenge that names the resource metadata at this URL (RFC 9728 5.1).
pub(crate) fn challenge(metadata: &str) -> Answer {
    let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    of(StatusCode::UNAUTHORIZED, Some((header::WWW_AUTHENTICATE, &challenge)), Bytes::new())
}

/// 403 with a challenge that requires this scope.
pub(crate) fn insufficient_scope(metadata: &str, scope: &str) -> Answer {
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata}\"");
    of(StatusCode::FORBIDDEN, Some((header::WWW_AUTHENTICATE, &challenge)), Bytes::new())
}

fn of(status: StatusCode, header: Option<(HeaderName, &str)>, body: Bytes) -> Answer {
    let response = Response::builder().status(status);
    let response = header.into_iter().fold(response, |response, (name, value)| response.header(name, value));
    response.body(body).unwrap()
}

/// The answer as HTTP/1.1 text.
pub(crate) fn text(answer: &Answer) -> String {
    let headers = answer.headers().iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
    let (headers, body) = (headers.collect::<String>(), std::str::from_utf8(answer.body()).unwrap());
    format!("HTTP/1.1 {}\r\n{headers}content-length: {}\r\n\r\n{body}", answer.status(), body.len())
}

/// The document with these members changed; null removes one.
pub(crate) fn changed(mut document: Value, members: &Map<String, Value>) -> Value {
    for (name, value) in members {
        if value.is_null() {
            document.as_object_mut().unwrap().remove(name);
        } else {
            document[name] = value.clone();
        }
    }
    document
}
