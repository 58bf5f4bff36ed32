//! Why a request has no response.

use std::time::Duration;

/// Failure of a request. The text is only for logs: it describes this network, so strangers must not read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The rules forbid the URL, or the addresses of its host. Nothing was sent.
    #[error("the URL may not be requested: {0}")]
    Refused(#[from] RefusedUrl),
    /// Its name has no addresses.
    #[error("the host cannot be reached: its name has no addresses ({0})")]
    Unresolved(String),
    /// This machine has no route to any of its addresses.
    #[error("the host cannot be reached: {0}")]
    NoRoute(String),
    /// The operator's proxy does not connect to it.
    #[error("the host cannot be reached: {0}")]
    Proxy(ProxyFailure),
    /// Nothing listens there, or its certificate is wrong. No request was sent.
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    /// The connection broke, or the answer is not HTTP. The request may have been processed.
    #[error("the host did not answer in HTTP: {0}")]
    Broken(String),
    /// The body is longer than the rules allow.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    /// The response was not complete in time.
    #[error("the answer was not complete after {0:?}")]
    TooSlow(Duration),
    /// Too many requests are in progress.
    #[error("too many requests to other hosts are under way")]
    Busy,
}

impl FetchError {
    /// Only the reason, for callers that name the host themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Unresolved(reason) | Self::NoRoute(reason) | Self::Unreachable(reason) | Self::Broken(reason) => {
                reason.clone()
            }
            Self::Proxy(failure) => failure.to_string(),
            Self::Refused(_) | Self::TooLarge(_) | Self::TooSlow(_) | Self::Busy => self.to_string(),
        }
    }
}

/// Failure of the operator's proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyFailure {
    /// It cannot be reached, or the connection broke.
    #[error("the proxy cannot be reached ({0})")]
    Unreachable(String),
    /// It does not speak HTTP.
    #[error("the proxy did not answer in HTTP")]
    NotHttp,
    /// It refuses the connection with this status.
    #[error("the proxy answered {0}")]
    Refused(u16),
}

/// A rule that forbids a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedUrl {
    /// The scheme is not https.
    #[error("its scheme is not https")]
    Scheme,
    /// It names a user or a password.
    #[error("it names a user or a password")]
    Credentials,
    /// It has no host.
    #[error("it has no host")]
    Host,
    /// The port is not 443.
    #[error("the port {0} is not 443")]
    Port(u16),
    /// The host has an address that is not public.
    #[error("its host has an address that is not public")]
    Address,
    /// The guard sees no addresses, and the host is not below a known public suffix.
    #[error(
        "its host is no name below a known public suffix: only such names pass while `egress_proxy_resolves` or \
         `fake_ip_resolver` is on"
    )]
    Name,
}
