//! One request: method, URL, headers and body.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use url::{Url, form_urlencoded};

/// A request. It has `Accept: application/json`, and no cookies.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl FetchRequest {
    /// Any request.
    pub const fn new(method: Method, url: Url, headers: HeaderMap, body: Bytes) -> Self {
        Self { method, url, headers, body }
    }

    /// Reads the document at `url`.
    pub fn get(url: Url) -> Self {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
        Self { method: Method::GET, url, headers, body: Bytes::new() }
    }

    /// Posts a form to `url`.
    pub fn form<'a>(url: Url, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        Self::post(url, "application/x-www-form-urlencoded", body)
    }

    /// Posts JSON to `url`.
    pub fn json(url: Url, body: &serde_json::Value) -> Self {
        Self::post(url, "application/json", body.to_string())
    }

    fn post(url: Url, media_type: &'static str, body: String) -> Self {
        let request = Self { method: Method::POST, body: body.into(), ..Self::get(url) };
        request.header(header::CONTENT_TYPE, HeaderValue::from_static(media_type))
    }

    /// The request with one more header, which replaces a header of the same name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
