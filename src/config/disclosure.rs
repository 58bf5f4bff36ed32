//! What a server is told of its callers: `identity`, and `${user}` in its texts. Knows nothing of tokens.

use std::collections::BTreeMap;

use super::{header, section::Section};
use crate::model::{CallerText, Disclosure, IdentityForm, IdentityHeader, Share};

/// The header of an identity without a signature, unless another is configured.
const PLAIN_HEADER: &str = "x-forwarded-user";
/// The header of a signed identity, unless another is configured.
const SIGNED_HEADER: &str = "authorization";

/// The options.
const OPTIONS: [&str; 3] = ["identity", "identity_header", "identity_audience"];

/// The value of `identity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdentityKind {
    Header,
    Jwt,
}

/// Refuses the options for a server without headers.
pub(super) fn refuse(section: &mut Section<'_>) {
    for option in OPTIONS {
        section.refuse(
            option,
            "this needs a `url` with http, https, ws or wss",
            "remove it; a program is told who calls by `${user}` in its `env` or `args`",
        );
    }
}

/// Reads the header that says who calls, beside these headers. `url` is the audience unless another is configured.
pub(super) fn identity(
    section: &mut Section<'_>,
    headers: &BTreeMap<String, CallerText>,
    url: Option<String>,
) -> Option<IdentityHeader> {
    let kind = section.choice("identity", &[("header", IdentityKind::Header), ("jwt", IdentityKind::Jwt)]);
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

/// The disclosure, if there is any. Reports `${user}` where all users share the server.
pub(super) fn checked(section: &Section<'_>, disclosure: Disclosure, share: Share) -> Option<Disclosure> {
    if share == Share::All && disclosure.has_texts() {
        section.fault(
            "`${user}` is the user who calls, and `share = \"all\"` gives all users the same server",
            Some("set `share` to \"user\" or \"session\", or remove `${user}`"),
        );
    }
    Some(disclosure).filter(|disclosure| !disclosure.is_empty())
}
