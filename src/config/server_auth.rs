//! Authorization of the gateway at a server, as configured.

use super::{
    keys,
    login::{authorize_params, parse_issuer},
    section::Section,
};
use crate::{
    model::{
        AuthorizationSettings, ConfiguredClient, DiscoveredNetwork, OAuthClientSpec, PkceSupport, ResourceIndicator,
        ServerAuth, Share, TransportSpec, config_key::key_rows,
    },
    support::Secret,
};

/// The value of `auth`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    OAuth,
    ClientCredentials,
}

/// The values of `auth`.
const MODES: [(&str, Mode); 3] =
    [("none", Mode::None), ("oauth", Mode::OAuth), ("client-credentials", Mode::ClientCredentials)];

/// The values of `pkce`.
const PKCE: [(&str, PkceSupport); 2] = [("announced", PkceSupport::Announced), ("assume", PkceSupport::Assumed)];

key_rows! {
    /// The key that enables the others.
    pub(super) const MODE {
        /// The gateway's token for a server over HTTP. `"oauth"`: each user connects an account once, on a page of the
        /// gateway; it is never shared, so `share` cannot be `"all"`. `"client-credentials"`: the gateway has one token
        /// for all.
        ///
        /// See [Servers that ask for a login](#servers-that-ask-for-a-login). Only with an HTTP `url`.
        auth: Choice(&keys::words(&MODES)), Example("\"none\"", "\"oauth\"");
    }
}

key_rows! {
    /// The keys that belong to `auth`.
    pub(super) const KEYS {
        /// The client that you registered at the server's authorization server, with the redirect URI
        /// `<public_url>/oauth/upstream/callback/<name>`. Without it the gateway introduces itself, where the server
        /// allows that.
        ///
        /// Only with `auth`.
        client_id: Text("text"), None("\"Iv1.0123456789abcdef\"");
        /// Its secret, preferably from a file or the environment. It needs `issuer`: without it, this server fails.
        ///
        /// Only with `auth`.
        client_secret: Text("text"), None("\"${GITHUB_SECRET}\"");
        /// The issuer of the authorization server, exactly as the server lists it, except for a trailing slash. Only
        /// this issuer gets `client_secret`. Without it: the first that the server lists.
        ///
        /// It selects one if the server lists several. Only with `auth`.
        issuer: Text("text"), None("\"https://github.com/login/oauth\"");
        /// The scopes to request. Without it: the scopes that the server names.
        ///
        /// Only with `auth`.
        scopes: Texts, None("[\"repo\"]");
        /// The resource to request tokens for, or `false` to request them without one, as Entra ID requires. Without
        /// it: the resource in the server's metadata, if it is the server's URL, or the origin in the origin's
        /// document.
        ///
        /// Only with `auth`.
        resource: TextOrFalse, None("\"https://mcp.example.com\"");
        /// `"assume"`: its authorization server has PKCE with S256, even though its metadata does not mention it, as
        /// with Entra ID and Amazon Cognito. By default the metadata must announce it.
        ///
        /// Only with `auth`.
        pkce: Choice(&keys::words(&PKCE)), Example("\"announced\"", "\"assume\"");
        /// Further parameters of the authorization request, such as `{ audience = "api.example.com" }`. Parameters that
        /// the login itself sets are refused; words of `prompt` are added to its own.
        ///
        /// Only with `auth = "oauth"`.
        authorize_params: TableOfTexts, None("{ prompt = \"select_account\" }");
        /// With `true`, URLs named by the server may be in a private network, or reachable only through the proxy of
        /// the environment.
        ///
        /// By default only public addresses and the origin of `url` are allowed, and other loopback addresses if `url`
        /// has one. Only with `auth`.
        private_authorization_server: Flag, Value("false");
    }
}

/// Reads the options, for a server with this transport.
pub(super) fn read(section: &mut Section<'_>, transport: Option<&TransportSpec>, share: Share) -> ServerAuth {
    let mode = section.choice("auth", &MODES).unwrap_or(Mode::None);
    if mode == Mode::None {
        for key in KEYS {
            section.refuse(key.name, "this needs `auth`", "remove it, or set `auth = \"oauth\"`");
        }
        return ServerAuth::None;
    }
    let id = section.text("client_id");
    let secret = section.text("client_secret").map(Secret::new);
    let issuer = section.parsed("issuer", parse_issuer);
    let scope = section.parsed_list("scopes", scope).map(|scopes| scopes.join(" ")).filter(|scope| !scope.is_empty());
    let resource = section.parsed_or_false("resource", ResourceIndicator::Omitted, ResourceIndicator::named);
    let resource = resource.unwrap_or_default();
    let pkce = section.choice("pkce", &PKCE).unwrap_or_default();
    let authorize_params = authorize_params(section);
    let network = match section.flag("private_authorization_server") {
        Some(true) => DiscoveredNetwork::Any,
        Some(false) | None => DiscoveredNetwork::Public,
    };
    check_server(section, transport);
    if mode == Mode::OAuth && share == Share::All {
        let advice = "set `share` to `user` or `session`, or remove it";
        section.fault("with `auth = \"oauth\"` each user has tokens of their own, which nobody shares", Some(advice));
    }
    if id.is_none() && secret.is_some() {
        section.fault("`client_secret` belongs to a client", Some("set `client_id` too"));
    }
    if mode == Mode::ClientCredentials && (id.is_none() || secret.is_none()) {
        section.fault("client credentials are missing", Some("set `client_id` and `client_secret`"));
    }
    let client = id.map(|id| ConfiguredClient { id, secret });
    let client = OAuthClientSpec {
        client,
        scope,
        settings: AuthorizationSettings { issuer, resource, pkce, authorize_params },
        network,
    };
    if mode == Mode::OAuth { ServerAuth::User(client) } else { ServerAuth::Gateway(client) }
}

/// Reports a server that cannot get a token, or already gets another credential.
fn check_server(section: &Section<'_>, transport: Option<&TransportSpec>) {
    let Some(transport) = transport else { return };
    let Some(http) = transport.http() else {
        section.fault("`auth` needs a `url` with http or https", Some("remove it, or set such a `url`"));
        return;
    };
    if http.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        section.fault(
            "a configured `Authorization` would hide the token",
            Some("remove it from `headers`, or remove `auth`"),
        );
    }
    // a token must not travel where others can read it
    let is_local = http.url.host_str().is_some_and(|host| {
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    if http.url.scheme() != "https" && !is_local {
        section.fault("tokens are sent only over https", Some("set a `url` with https"));
    }
}

/// One scope (RFC 6749 3.3).
fn scope(text: &str) -> Result<String, String> {
    let is_valid = |c: char| matches!(c, '!' | '#'..='[' | ']'..='~');
    if text.is_empty() || !text.chars().all(is_valid) {
        return Err("this is not a scope".to_owned());
    }
    Ok(text.to_owned())
}
