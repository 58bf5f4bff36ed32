//! The tables `[login.<name>]`: OpenID providers at which people log in. Knows nothing of their documents.

use std::str::FromStr as _;

use jsonwebtoken::Algorithm;
use url::{Host, Url};

use super::section::{Section, meant};
use crate::{
    model::{
        Access, AllowedBackends, BackendId, IdentityAssertions, LoginProvider, LoginRule, LoginSession, People, Rights,
    },
    support::Secret,
};

/// Algorithms without `algorithms`: what providers sign with by default, and its successor.
const DEFAULT_ALGORITHMS: [Algorithm; 2] = [Algorithm::RS256, Algorithm::ES256];

/// Reads the providers; people may get rights for these servers and groups.
pub(super) fn read_all(section: Section<'_>, names: &[BackendId]) -> Vec<LoginProvider> {
    let mut providers: Vec<LoginProvider> = Vec::new();
    for (name, mut section) in section.tables() {
        let provider = read(name, &mut section, names);
        if let Some(provider) = provider {
            if providers.iter().any(|other| other.issuer == provider.issuer) {
                let advice = "people are known by issuer and subject: write one table for each issuer";
                section.fault("another provider has this issuer too", Some(advice));
            }
            providers.push(provider);
        }
        section.finish();
    }
    providers
}

fn read(name: &str, section: &mut Section<'_>, names: &[BackendId]) -> Option<LoginProvider> {
    if BackendId::parse(name).is_err() {
        let advice = "it is a part of URLs: use a letter, then up to 31 of a-z, 0-9 and `-`";
        section.fault(format!("`{name}` is no name for a provider"), Some(advice));
    }
    let issuer = required(section, "issuer", parse_issuer, "the provider's issuer, such as `https://id.example.com`");
    let client_id = required(section, "client_id", nonempty, "the id of the gateway at the provider");
    let client_secret = section.parsed("client_secret", nonempty).map(Secret::new);
    let session =
        section.choice("session", &[("independent", LoginSession::Independent), ("bound", LoginSession::Bound)]);
    let session = session.unwrap_or(LoginSession::Independent);
    let identity_assertions = match section.flag("identity_assertions") {
        Some(true) => IdentityAssertions::Accepted,
        Some(false) | None => IdentityAssertions::Refused,
    };
    let label = section.parsed("label", label).unwrap_or_else(|| name.to_owned());
    let scopes = section.parsed_list("scopes", scope).unwrap_or_else(|| default_scopes(session));
    let algorithms = section.parsed_list("algorithms", algorithm).unwrap_or_else(|| DEFAULT_ALGORITHMS.to_vec());
    let groups_claim = section.parsed("groups_claim", nonempty).unwrap_or_else(|| "groups".to_owned());
    let own = rule(section, names);
    let mut rules: Vec<LoginRule> = own.into_iter().collect();
    for (_, mut section) in section.table("rights").tables() {
        match rule(&mut section, names) {
            Some(rule) => rules.push(rule),
            None => section.fault("these rights are for nobody", Some(WHO)),
        }
        section.finish();
    }
    if algorithms.is_empty() {
        section.fault("no algorithm is accepted", Some("remove `algorithms`, or name one"));
    }
    if rules.is_empty() {
        section.fault("nobody may log in through this provider", Some(WHO));
    }
    let scopes = with_openid(scopes);
    let (issuer, client_id, name) = (issuer?, client_id?, name.to_owned());
    Some(LoginProvider {
        name,
        issuer,
        client_id,
        client_secret,
        label,
        scopes,
        algorithms,
        groups_claim,
        rules,
        session,
        identity_assertions,
    })
}

const WHO: &str = "name people: `domains = [\"example.com\"]`, `groups = [\"…\"]` or `subjects = [\"…\"]`; `subjects = \
                   [\"*\"]` is everybody who can log in there";

/// The people of a table with their rights; `None` if it names nobody.
fn rule(section: &mut Section<'_>, names: &[BackendId]) -> Option<LoginRule> {
    let domains = section.parsed_list("domains", domain).unwrap_or_default();
    let groups = section.parsed_list("groups", nonempty).unwrap_or_default();
    let subjects = section.parsed_list("subjects", nonempty).unwrap_or_default();
    let backends = section.parsed_list("servers", |text| backend(text, names));
    let admin = section.flag("admin").unwrap_or(false);
    let mut rights = Rights { admin, ..Rights::all_backends() };
    if let Some(backends) = backends {
        rights.backends =
            AllowedBackends::Only(backends.iter().map(|(id, access)| (id.to_string(), *access)).collect());
    }
    let people = if subjects.iter().any(|subject| subject == "*") {
        People::Everybody
    } else if domains.is_empty() && groups.is_empty() && subjects.is_empty() {
        return None;
    } else {
        People::Listed { domains, groups, subjects }
    };
    Some(LoginRule { people, rights })
}

/// A value that must be there.
fn required(
    section: &mut Section<'_>,
    key: &'static str,
    parse: fn(&str) -> Result<String, String>,
    what: &str,
) -> Option<String> {
    if !section.has(key) {
        section.fault(format!("`{key}` is missing"), Some(&format!("set {what}")));
    }
    section.parsed(key, parse)
}

/// Reads an issuer (OpenID Connect Core 2, RFC 8414 2): it is kept byte for byte, since tokens and metadata repeat it.
///
/// # Errors
///
/// The reason, for people.
pub fn parse_issuer(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
        return Err("this must be an `https` URL; `http` is allowed for loopback addresses only".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains(['?', '#']) {
        return Err("remove user, password, query and fragment from it".to_owned());
    }
    if text.ends_with("/.well-known/openid-configuration") {
        return Err("write the issuer alone, without `/.well-known/openid-configuration`".to_owned());
    }
    Ok(text.to_owned())
}

fn nonempty(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("this is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn label(text: &str) -> Result<String, String> {
    let fits = (1..=60).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err("a label has 1 to 60 characters".to_owned()) }
}

/// A scope token (RFC 6749 3.3).
fn scope(text: &str) -> Result<String, String> {
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if !text.is_empty() && text.bytes().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("this is no scope: a scope has no spaces and quotes".to_owned())
    }
}

fn default_scopes(session: LoginSession) -> Vec<String> {
    let refresh = (session == LoginSession::Bound).then_some("offline_access");
    ["openid", "email", "profile"].into_iter().chain(refresh).map(str::to_owned).collect()
}

fn with_openid(mut scopes: Vec<String>) -> Vec<String> {
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    scopes
}

/// A signature that only the provider can make: the gateway's own secret is no key.
fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = Algorithm::from_str(text).ok();
    let is_asymmetric =
        |algorithm: &Algorithm| !matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
    known.filter(is_asymmetric).ok_or_else(|| {
        "this must be one of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`".to_owned()
    })
}

fn domain(text: &str) -> Result<String, String> {
    match Host::parse(text) {
        Ok(Host::Domain(name)) if !text.contains(['@', '*']) => Ok(name),
        _ => Err("this must be a domain as in an email address, such as `example.com`".to_owned()),
    }
}

/// A server or a group of servers, with `:read` for its read-only tools alone.
fn backend(text: &str, names: &[BackendId]) -> Result<(BackendId, Access), String> {
    let (name, access) = match text.strip_suffix(":read") {
        Some(name) => (name, Access::ReadOnly),
        None => (text, Access::Full),
    };
    let found = BackendId::normalise(name).ok().filter(|id| names.contains(id));
    found.map(|id| (id, access)).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(BackendId::as_str).collect();
        match meant(name, &known) {
            Some(meant) => format!("there is no server or group `{name}`; did you mean `{meant}`?"),
            None => format!("there is no server or group `{name}`; there are {}", known.join(", ")),
        }
    })
}
