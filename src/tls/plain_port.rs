//! The port without TLS: answers authorities, and redirects people's page views to https. All other requests get no
//! answer, so that anyone sending a secret in plain text notices.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Method, StatusCode, header};
use tower::Service;

use super::certificates::Certificates;

/// The path of challenges (RFC 8555 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The service of the port. Cheap to clone.
#[derive(Clone)]
pub struct PlainPort(Arc<PlainPortParts>);

struct PlainPortParts {
    certificates: Arc<Certificates>,
    public_url: String,
    is_page: fn(&str) -> bool,
}

impl PlainPort {
    /// Redirects readers of the pages accepted by `is_page` to `public_url` (without a slash at the end).
    pub fn new(certificates: Arc<Certificates>, public_url: &str, is_page: fn(&str) -> bool) -> Self {
        Self(Arc::new(PlainPortParts { certificates, public_url: public_url.to_owned(), is_page }))
    }

    fn answer(&self, request: &Request) -> Response {
        let path = request.uri().path();
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let url = || {
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            format!("{}{target}", self.0.public_url)
        };
        if let Some(token) = path.strip_prefix(CHALLENGES).filter(|_| reads) {
            return match self.0.certificates.challenges.text(token) {
                Some(text) => ([(header::CONTENT_TYPE, "text/plain")], text).into_response(),
                None => (StatusCode::NOT_FOUND, "No challenge has this token.\n").into_response(),
            };
        }
        if reads
            && (self.0.is_page)(path)
            && let Ok(location) = HeaderValue::try_from(url())
        {
            let headers = [(header::LOCATION, location)];
            return (StatusCode::PERMANENT_REDIRECT, headers, Body::empty()).into_response();
        }
        let text = format!("Nothing is answered here without TLS. Use {}{path} instead.\n", self.0.public_url);
        (StatusCode::FORBIDDEN, text).into_response()
    }
}

impl Service<Request> for PlainPort {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut response = self.answer(&request);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ChallengeRow;

    fn answered(method: Method, target: &str) -> Response {
        let certificates = Arc::new(Certificates::default());
        certificates.challenges.replace(vec![ChallengeRow {
            token: "t0ken".to_owned(),
            name: "mcp.example.com".to_owned(),
            key_authorization: "t0ken.thumb".to_owned(),
        }]);
        let port = PlainPort::new(certificates, "https://mcp.example.com", |path| path == "/account");
        port.answer(&Request::builder().method(method).uri(target).body(Body::empty()).unwrap())
    }

    #[test]
    fn pages_are_redirected_challenges_answered_and_nothing_else() {
        let redirected = answered(Method::GET, "/account?next=1");
        assert_eq!(redirected.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(redirected.headers()[header::LOCATION], "https://mcp.example.com/account?next=1");
        assert_eq!(answered(Method::GET, "/.well-known/acme-challenge/t0ken").status(), StatusCode::OK);
        for (method, target) in [
            (Method::POST, "/account"),
            (Method::GET, "/mcp"),
            (Method::POST, "/mcp"),
            (Method::GET, "/.well-known/oauth-authorization-server"),
            (Method::OPTIONS, "*"),
        ] {
            let refused = answered(method, target);
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{target}");
            assert!(refused.headers().get(header::LOCATION).is_none());
        }
        assert_eq!(answered(Method::GET, "/.well-known/acme-challenge/other").status(), StatusCode::NOT_FOUND);
    }
}
