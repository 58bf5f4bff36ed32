//! Facts about callers for a server: `identity`, and `${user}` and `${secret:NAME}` in its texts.

use std::collections::BTreeMap;

use super::{header, keys, section::Section};
use crate::model::{CallerText, Disclosure, IdentityForm, IdentityHeader, ServerAuth, Share, config_key::key_rows};

/// The header of an identity without a signature, unless another is configured.
const PLAIN_HEADER: &str = "x-forwarded-user";
/// The header of a signed identity, unless another is configured.
const SIGNED_HEADER: &str = "authorization";

/// Why `${user}` is refused at a server shared by all users, and what to do.
const SHARED_USER: (&str, &str) = (
    "`${user}` is the user who calls, and `share = \"all\"` gives all users the same server",
    "set `share` to \"user\" or \"session\", or remove `${user}`",
);
/// The same for `${secret:…}`.
const SHARED_SECRET: (&str, &str) = (
    "each user enters a `${secret:…}`, and `share = \"all\"` gives all users the same server",
    "set `share` to \"user\" or \"session\", or give all users the same value by `${NAME}` or `${file:PATH}`",
);

/// The value of `identity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdentityKind {
    Header,
    Jwt,
}

/// The values of `identity`.
const KINDS: [(&str, IdentityKind); 2] = [("header", IdentityKind::Header), ("jwt", IdentityKind::Jwt)];

key_rows! {
    /// The keys of an identity.
    pub(super) const KEYS {
        /// [The caller](operations.md#telling-a-server-who-calls), sent to the server with every request: the user as a
        /// header, or user and client in a JWT that the gateway signs. Without it: nothing is sent.
        ///
        /// With it, users never share a session of the server, with any `share`. Only with an HTTP or WebSocket `url`.
        identity: Choice(&keys::words(&KINDS)), None("\"jwt\"");
        /// The header for it. Without it: `X-Forwarded-User` for `"header"`; `Authorization` with the scheme `Bearer`
        /// for `"jwt"`.
        identity_header: Text("text"), None("\"X-Caller\"");
        /// The `aud` of the JWT. Without it: the `url`, without its query.
        identity_audience: Text("text"), None("\"https://docs.example.com/mcp\"");
    }
}

/// Refuses the options for a server without headers.
pub(super) fn refuse(section: &mut Section<'_>) {
    for key in KEYS {
        section.refuse(
            key.name,
            "this needs a `url` with http, https, ws or wss",
            "remove it; a program is told who calls by `${user}` in its `env` or `args`",
        );
    }
}

/// Reads the header that names the caller; `headers` are the configured ones. `url` is the audience unless another is
/// configured.
pub(super) fn identity(
    section: &mut Section<'_>,
    headers: &BTreeMap<String, CallerText>,
    url: Option<String>,
) -> Option<IdentityHeader> {
    let kind = section.choice("identity", &KINDS);
    if !section.has("identity") {
        section.refuse("identity_header", "this needs `identity`", "set `identity`, or remove it");
    }
    if kind != Some(IdentityKind::Jwt) {
        section.refuse("identity_audience", "this needs `identity = \"jwt\"`", "remove it");
    }
    let name = section.parsed("identity_header", |text| Ok(header::name(text)?.as_str().to_owned()));
    let audience = section.parsed("identity_audience", |text| {
        if text.is_empty() { Err("this must not be empty".to_owned()) } else { Ok(text.to_owned()) }
    });
    let kind = kind?;
    let default = if kind == IdentityKind::Jwt { SIGNED_HEADER } else { PLAIN_HEADER };
    let name = name.unwrap_or_else(|| default.to_owned());
    if headers.keys().any(|header| header.eq_ignore_ascii_case(&name)) {
        section.fault(
            format!("`headers` and `identity` both set the header `{name}`"),
            Some("remove it from `headers`, or set `identity_header` to another name"),
        );
    }
    let form = match kind {
        IdentityKind::Header => IdentityForm::Plain,
        IdentityKind::Jwt => IdentityForm::Signed { audience: audience.or(url)? },
    };
    Some(IdentityHeader { name, form })
}

/// Reports an identity in the header that carries the token of a login.
pub(super) fn check_login(section: &Section<'_>, disclosure: &Disclosure, auth: &ServerAuth) {
    let takes = |header: &IdentityHeader| header.name == "authorization" && auth.client().is_some();
    if disclosure.identity.as_ref().is_some_and(takes) {
        section.fault(
            "`auth` and `identity` both set the header `authorization`: the server would get one of the two tokens",
            Some("set `identity_header` to another name, or remove `auth` or `identity`"),
        );
    }
}

/// The disclosure, if any. Reports texts per user where all users share the server.
pub(super) fn checked(section: &Section<'_>, disclosure: Disclosure, share: Share) -> Option<Disclosure> {
    if share == Share::All && disclosure.has_texts() {
        let (what, advice) = if disclosure.secret_names().is_empty() { SHARED_USER } else { SHARED_SECRET };
        section.fault(what, Some(advice));
    }
    Some(disclosure).filter(|disclosure| !disclosure.is_empty())
}
