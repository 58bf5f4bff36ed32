//! Policy of the authorization server (`[auth]`), and other choices of the operator about access.

use std::time::Duration;

use super::{
    AllowedOrigin, ClientDocumentPolicy, EgressPolicy,
    config_key::{config_keys, key_rows},
};

/// Names of tools and prompts on the merged endpoint (`translation` 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `<backend>__<name>`, at the merged endpoint.
    Prefixed,
    /// The backend's own names, if the gateway was started for exactly one backend.
    Plain,
}

/// The use of an API key in the query of `/sse` and `/messages` (OA-124).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKey {
    /// `?api_key=…` counts like the header.
    Accepted,
    /// The parameter is ignored, and the request has no credentials.
    Ignored,
}

/// Further hosts and origins of web pages that the gateway accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedSites {
    /// Names in the `Host` header, without port.
    pub hosts: Vec<String>,
    /// Origins whose pages may call MCP endpoints.
    pub origins: Vec<AllowedOrigin>,
}

/// The gateways that count a rate limit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    /// All on one PostgreSQL database.
    Shared,
    /// Each replica by itself.
    Replica,
}

config_keys! {
    /// Policy of the authorization server.
    pub struct AuthPolicy, taken at restart {
        /// Lifetime of an access token.
        access_token_lifetime: Duration = duration(1 h, 5 m to 1 d) at reload;
        /// A grant that is not refreshed for this long ends.
        refresh_idle: Duration = duration(30 d, 1 h to 365 d) at reload;
        /// A grant always ends after this.
        refresh_absolute: Duration = duration(180 d, 1 h to 1825 d) at reload;
        /// A refresh token used twice within this time yields the same successor.
        refresh_grace: Duration = duration(60 s, 0 s to 5 m) at reload;
        /// The oldest rows of the [audit trail](operations.md#audit) are deleted at this age.
        audit_retention: Duration = duration(400 d, 7 d to 3650 d) at reload;
        /// Gateways on one PostgreSQL database that count [rate limits](operations.md#rate-limits) together: all, or
        /// each by itself.
        rate_limits: RateLimitScope = choice("shared" => RateLimitScope::Shared, "replica" => RateLimitScope::Replica);
        /// Time from consent to the client's token request.
        code_lifetime: Duration = duration(60 s, 10 s to 10 m) at reload;
        /// Time for a person to log in and consent.
        transaction_lifetime: Duration = duration(10 m, 1 m to 1 h) at reload;
        /// URI schemes that redirects to applications may have, such as `"myapp"`, in addition to well-known schemes
        /// and schemes with a period.
        redirect_schemes: Vec<String> = texts(redirect_scheme);
        /// Hosts that get errors without asking the person, such as `"claude.ai"`.
        trusted_redirect_hosts: Vec<String> = texts(host);
        /// Dynamic client registration.
        registration: Registration = shape(Registration::Open, REGISTRATION);
        /// Clients identified by the URL of a metadata document.
        client_documents: ClientDocumentPolicy = shape(ClientDocumentPolicy::default(), CLIENT_DOCUMENTS);
        /// Requests to URLs named by clients, login providers and protected servers.
        egress: EgressPolicy = shape(EgressPolicy::default(), EGRESS);
        /// If strangers must not find out which servers exist.
        ///
        /// With `false`, the catalog and cards for discovery name them too.
        conceal_servers: ConcealBackends = flag(true => ConcealBackends::Yes, false => ConcealBackends::No);
        /// If the metadata announces `iss` (RFC 9207).
        ///
        /// Responses have it either way.
        advertise_iss: AdvertiseIss = flag(true => AdvertiseIss::Yes, false => AdvertiseIss::No);
        /// Accepted `aud` in assertions of clients that authenticate with `private_key_jwt`: the issuer, or also the
        /// URLs of the token endpoint and of the endpoint for pushed requests.
        assertion_audience: AssertionAudience = choice(
            "issuer" => AssertionAudience::Issuer,
            "token-endpoint" => AssertionAudience::IssuerOrTokenEndpoint,
        );
        /// If an access token for `/mcp` also opens `/mcp/{server}` and `/mcp/{group}`, within its scopes and the key's
        /// rights: for clients that use one token for several endpoints.
        ///
        /// Tokens for other endpoints open only their own.
        aud_parent_ok: ParentAudience = flag(false => ParentAudience::Refused, true => ParentAudience::Accepted);
    }
}

key_rows! {
    /// The keys of [`Registration`].
    const REGISTRATION {
        /// Clients that may register by themselves: all, those with a redirect URI in `registration_hosts`, those with
        /// a token of `lockkeeper clients initial-access-tokens`, or none.
        ///
        /// With `"off"`, only clients with a metadata document can log in anew.
        registration: Choice(&["open", "allowlist", "initial-access-token", "off"]), Value("\"open\"");
        /// Hosts of the redirect URIs that clients may register under `"allowlist"`, such as `"claude.ai"` or
        /// `"localhost"`, and schemes of apps, such as `"cursor"`. Each redirect URI of a client must have one.
        registration_hosts: Texts, None("[\"claude.ai\", \"localhost\", \"cursor\"]");
    }
}

key_rows! {
    /// The keys of [`ClientDocumentPolicy`].
    const CLIENT_DOCUMENTS {
        /// Clients that may use the URL of a metadata document as their id (Client ID Metadata Documents) and need not
        /// register: all, those in `client_document_hosts`, or none.
        ///
        /// The gateway reads such documents over https, only from public addresses, and from this machine while
        /// `public_url` is http, as in development.
        client_documents: Choice(&["any", "allowlist", "off"]), Value("\"any\"");
        /// Domains, with all names below, whose documents are read under `"allowlist"`, such as `"claude.ai"`.
        client_document_hosts: Texts, None("[\"claude.ai\"]");
        /// Domains whose documents are never read.
        denied_client_document_hosts: Texts, Value("[]");
    }
}

key_rows! {
    /// The keys of [`EgressPolicy`].
    const EGRESS {
        /// The URL of the HTTP proxy for requests to URLs named by clients, login providers and protected servers, with
        /// user and password if it needs them. Without it: directly; the proxies of the environment are never used for
        /// that.
        ///
        /// The gateway resolves names itself and asks the proxy only for public addresses.
        egress_proxy: Text("text"), None("\"http://proxy.example.com:3128\"");
        /// Hands `egress_proxy` names instead of addresses, for networks where only the proxy resolves names.
        ///
        /// The gateway then sees no addresses: it only allows https, port 443 and names below a known public suffix,
        /// and the proxy must keep the internal network out
        /// ([deployment](deployment.md#without-direct-access-to-the-internet)).
        egress_proxy_resolves: Flag, Value("false");
        /// Treats `198.18.0.0/15` as public, for resolvers that give every name an address in it, with a proxy in the
        /// path that knows the name.
        ///
        /// It allows the same as `egress_proxy_resolves`, and the proxy must do the same. The two cannot be combined.
        fake_ip_resolver: Flag, Value("false");
    }
}

/// Dynamic client registration (RFC 7591, OA-44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Open to everyone, within limits.
    Open,
    /// Open to clients whose redirect URIs have these hosts and schemes (`registration_hosts`).
    Listed(Vec<String>),
    /// Open to clients with an initial access token of the operator.
    ByToken,
    Off,
}

/// Concealment of backend names from unauthenticated clients (OA-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcealBackends {
    /// Metadata and challenges look the same for every possible backend name.
    Yes,
    /// The metadata of a missing backend is 404.
    No,
}

/// Announcement of `iss` in the metadata (RFC 9207, OA-12); responses carry `iss` in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertiseIss {
    Yes,
    /// Not announced, for clients that drop `iss` and then miss it.
    No,
}

/// `aud` that client assertions may have (RFC 7523 3, OA-83).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionAudience {
    Issuer,
    /// The issuer or the URL of the token endpoint, for clients that follow older texts.
    IssuerOrTokenEndpoint,
}

/// Access tokens for `/mcp` at `/mcp/{backend}` (OA-114).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentAudience {
    /// Refused: a token opens only its own endpoint.
    Refused,
    /// Accepted, for clients that get one token for several endpoints.
    Accepted,
}

/// Reads a name or an address, without port; an IPv6 address in brackets.
///
/// # Errors
///
/// The required form.
pub fn host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(host) => Ok(host.to_string()),
        Err(_) => Err("a host is a name or an address such as `mcp.internal`, without scheme and port".to_owned()),
    }
}

/// A private-use URI scheme: the grammar of RFC 3986 3.1, without schemes that a browser runs or opens itself (OA-55).
fn redirect_scheme(text: &str) -> Result<String, String> {
    const REFUSED: [&str; 9] =
        ["http", "https", "javascript", "data", "file", "blob", "about", "vbscript", "view-source"];
    let lowered = text.to_ascii_lowercase();
    let well_formed = lowered.starts_with(|c: char| c.is_ascii_lowercase())
        && lowered.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !well_formed {
        Err("a URI scheme is a letter, then letters, digits, `+`, `-` and `.`; without `://`".to_owned())
    } else if REFUSED.contains(&lowered.as_str()) {
        Err("this scheme cannot belong to an application; use a private one such as `myapp`".to_owned())
    } else {
        Ok(lowered)
    }
}
