//! The guarded client: everything that the gateway sends to backends over HTTP goes through it.

use std::{collections::BTreeMap, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{NoProxy, Proxy, redirect::Policy};

use crate::{
    backend::{error::StartError, transport::TransportError},
    model::HttpSpec,
};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client: no redirects (they would carry the configured credentials elsewhere), no cookies, a bound on connecting.
/// Answers have no bound in time here: calls have one on silence.
///
/// The proxies are those of `environment`, which is given; loopback addresses are always reached directly.
pub(crate) fn guarded(environment: &BTreeMap<String, String>) -> Result<reqwest::Client, reqwest::Error> {
    let mut client = reqwest::Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Duration::from_mins(1))
        .user_agent(concat!("lockkeeper/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    let variable = |lower: &str, upper: &str| environment.get(lower).or_else(|| environment.get(upper));
    let direct = variable("no_proxy", "NO_PROXY").map_or("", String::as_str);
    let direct = NoProxy::from_string(&format!("localhost,127.0.0.0/8,::1,{direct}"));
    // `HTTP_PROXY` in capitals can be set by a client of a CGI program, so programs have learnt to leave it
    if let Some(url) = environment.get("http_proxy").filter(|url| !url.is_empty()) {
        client = client.proxy(Proxy::http(url)?.no_proxy(direct.clone()));
    }
    if let Some(url) = variable("https_proxy", "HTTPS_PROXY").filter(|url| !url.is_empty()) {
        client = client.proxy(Proxy::https(url)?.no_proxy(direct));
    }
    client.build()
}

/// The configured headers, marked as secrets.
pub(in super::super) fn headers(spec: &HttpSpec) -> Result<HeaderMap, StartError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &spec.headers {
        let wrong =
            || StartError::Refused(format!("the configured header `{name}` is no HTTP header: correct `headers`"));
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}

/// A request that was not answered. What could not even connect has certainly not been acted on.
pub(super) fn broken(error: &reqwest::Error) -> TransportError {
    let reason = causes(error);
    if error.is_connect() {
        TransportError::Unreachable(format!("the server cannot be reached ({reason}): is it running, is `url` right?"))
    } else {
        TransportError::Lost(reason)
    }
}

/// The innermost cause: the outer ones name the URL, which may hold a secret.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::ptr::addr_eq(cause, error) { "the request failed".to_owned() } else { cause.to_string() }
}
