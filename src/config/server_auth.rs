//! Authorization of the gateway at a server, as configured. Knows nothing of the protocol.

use super::{login::parse_issuer, section::Section};
use crate::{
    model::{
        AuthorizationSettings, ConfiguredClient, DiscoveredNetwork, OAuthClientSpec, ResourceIndicator, ServerAuth,
        Share, TransportSpec,
    },
    support::Secret,
};

/// The options beside `auth`.
const KEYS: [&str; 6] = ["client_id", "client_secret", "issuer", "scopes", "resource", "private_authorization_server"];

/// The value of `auth`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    OAuth,
    ClientCredentials,
}

/// Reads the options, for a server with this transport.
pub(super) fn read(section: &mut Section<'_>, transport: Option<&TransportSpec>, share: Option<Share>) -> ServerAuth {
    let modes = [("none", Mode::None), ("oauth", Mode::OAuth), ("client-credentials", Mode::ClientCredentials)];
    let mode = section.choice("auth", &modes).unwrap_or(Mode::None);
    if mode == Mode::None {
        for key in KEYS {
            section.refuse(key, "this needs `auth`", "remove it, or set `auth = \"oauth\"`");
        }
        return ServerAuth::None;
    }
    let id = section.text("client_id");
    let secret = section.text("client_secret").map(Secret::new);
    let issuer = section.parsed("issuer", parse_issuer);
    let scope = section.parsed_list("scopes", scope).map(|scopes| scopes.join(" ")).filter(|scope| !scope.is_empty());
    let resource = section.parsed_or_false("resource", ResourceIndicator::Omitted, ResourceIndicator::named);
    let resource = resource.unwrap_or_default();
    let network = match section.flag("private_authorization_server") {
        Some(true) => DiscoveredNetwork::Any,
        Some(false) | None => DiscoveredNetwork::Public,
    };
    check_server(section, transport);
    if mode == Mode::OAuth && share == Some(Share::All) {
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
    let client = OAuthClientSpec { client, scope, settings: AuthorizationSettings { issuer, resource }, network };
    if mode == Mode::OAuth { ServerAuth::User(client) } else { ServerAuth::Gateway(client) }
}

/// Reports a server to which no token can be sent, or to which another credential is.
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
    // a token goes over nothing that others can read
    let is_local = http.url.host_str().is_some_and(|host| {
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    if http.url.scheme() != "https" && !is_local {
        section.fault("tokens are sent over https alone", Some("set a `url` with https"));
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
