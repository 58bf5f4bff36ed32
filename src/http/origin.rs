//! The origins whose pages may call the MCP endpoints (`OA-25`; 2025-11-25 transports: servers MUST validate the
//! `Origin` header).

use axum::extract::Request;
use http::{HeaderValue, StatusCode};
use url::{Host, Origin, Url};

use super::{guard_settings::GuardSettings, refusal::EarlyRefusal};
use crate::{model::AllowedSites, support::Live};

/// The checked endpoints, with everything below them.
const GUARDED: [&str; 4] = ["/mcp", "/sse", "/messages", "/ws"];

#[derive(Debug)]
pub(super) struct Origins {
    own: Origin,
    sites: Live<AllowedSites>,
}

impl Origins {
    /// Accepts the gateway's own origin and the configured ones. Loopback origins with any port are always allowed,
    /// because local tools serve their pages there.
    pub(super) fn new(settings: &GuardSettings) -> Self {
        Self { own: settings.public_url.origin(), sites: settings.sites.clone() }
    }

    /// Refuses an unknown `Origin`, including `null`, with 403. A request without one does not come from a page.
    pub(super) fn check(&self, origin: &HeaderValue, request: &Request) -> Result<(), EarlyRefusal> {
        if !is_guarded(request.uri().path()) || origin.to_str().is_ok_and(|origin| self.allows(origin)) {
            return Ok(());
        }
        let message =
            "Pages of this origin may not call this gateway. Its operator can allow the origin in `allowed_origins`.";
        Err(EarlyRefusal::json_rpc(StatusCode::FORBIDDEN, message, request.headers()))
    }

    fn allows(&self, origin: &str) -> bool {
        let Ok(url) = Url::parse(origin) else { return false };
        let origin = url.origin();
        origin == self.own || is_loopback(&url) || { self.sites.get().origins.iter().any(|allowed| allowed.has(&url)) }
    }
}

/// Returns `true` if the path is an MCP endpoint. Every page may read the server cards next to them.
pub(super) fn is_guarded(path: &str) -> bool {
    !path.ends_with("/server-card")
        && GUARDED
            .iter()
            .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn is_loopback(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    loopback && matches!(url.scheme(), "http" | "https")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AllowedOrigin;

    fn origins() -> Origins {
        let own = Url::parse("https://mcp.example.com/").unwrap().origin();
        let origins = vec![AllowedOrigin::parse("https://tool.example.org:8443").unwrap()];
        Origins { own, sites: Live::new(AllowedSites { origins, ..AllowedSites::default() }) }
    }

    #[test]
    fn oa_025_own_configured_and_loopback_origins_may_call() {
        let may = [
            "https://mcp.example.com",
            "https://mcp.example.com:443",
            "https://tool.example.org:8443",
            "http://localhost:6274",
            "http://127.0.0.1:1",
            "http://[::1]:9",
        ];
        for origin in may {
            assert!(origins().allows(origin), "{origin}");
        }
    }

    #[test]
    fn foreign_origins_may_not() {
        let may_not = [
            "null",
            "",
            "https://evil.example",
            "http://mcp.example.com",
            "https://mcp.example.com.evil.example",
            "https://tool.example.org",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "file://",
        ];
        for origin in may_not {
            assert!(!origins().allows(origin), "{origin}");
        }
    }
}
