//! The tables `[login.<name>]`: OpenID providers where people log in.

use url::{Host, Url};

use super::{
    keys,
    section::{Section, meant},
};
use crate::model::{
    Access, AllowedBackends, BackendId, LoginProvider, LoginRule, LoginSession, People, Rights, config_key::key_rows,
    login::nonempty, server_auth::check_authorize_param,
};

key_rows! {
    /// The keys without a default.
    pub(super) const IDENTITY {
        /// The provider's issuer, exactly as the provider writes it, without `/.well-known/…`; https, or http on a
        /// loopback address.
        issuer: Text("text"), Required("\"https://id.example.com\"");
        /// The id of the gateway at the provider.
        client_id: Text("text"), Required("\"lockkeeper\"");
    }
}

key_rows! {
    /// The key of further parameters.
    pub(super) const PARAMETERS {
        /// Further parameters of the authorization request, such as `{ access_type = "offline", prompt = "consent" }`
        /// for a provider that gives refresh tokens only with these. Parameters that the login itself sets are refused;
        /// words of `prompt` are added to its own.
        authorize_params: TableOfTexts, None("{ access_type = \"offline\" }");
    }
}

key_rows! {
    /// The keys of people and their rights.
    pub(super) const RULE {
        /// Domains of email addresses. An address counts if the provider marks it as verified.
        domains: Texts, None("[\"example.com\"]");
        /// Groups of the provider.
        groups: Texts, None("[\"staff\"]");
        /// Single people, by `sub`; `"*"` is everyone who can log in there.
        subjects: Texts, None("[\"248289761001\"]");
        /// Servers, and groups of servers, that these people may use; `NAME:read` means only the read-only tools.
        /// Without it: all servers.
        servers: Texts, None("[\"docs\", \"files:read\"]");
        /// If they may read and administer the state of the gateway.
        admin: Flag, Value("false");
    }
}

key_rows! {
    /// The key of further rights.
    pub(super) const RIGHTS {
        /// Further people, and further rights: `[login.<name>.rights.<rule>]`.
        rights: Tables("login_rights"), None("");
    }
}

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
        section.fault(format!("`{name}` is not a valid name for a provider"), Some(advice));
    }
    let issuer = required(section, "issuer", parse_issuer, "the provider's issuer, such as `https://id.example.com`");
    let client_id = required(section, "client_id", nonempty, "the id of the gateway at the provider");
    let defaults = LoginProvider::with_defaults(
        name.to_owned(),
        issuer.clone().unwrap_or_default(),
        client_id.clone().unwrap_or_default(),
        Vec::new(),
        Vec::new(),
    );
    let (mut provider, given) = keys::read(section, LoginProvider::KEYS, defaults);
    let own = rule(section, names);
    let mut rules: Vec<LoginRule> = own.into_iter().collect();
    for (_, mut section) in section.table("rights").tables() {
        match rule(&mut section, names) {
            Some(rule) => rules.push(rule),
            None => section.fault("these rights are for nobody", Some(WHO)),
        }
        section.finish();
    }
    if provider.algorithms.is_empty() {
        section.fault("no algorithm is accepted", Some("remove `algorithms`, or name one"));
    }
    if rules.is_empty() {
        section.fault("nobody may log in through this provider", Some(WHO));
    }
    if provider.session == LoginSession::Bound && !given.contains(&"scopes") {
        provider.scopes.push("offline_access".to_owned());
    }
    let scopes = with_openid(provider.scopes);
    let authorize_params = authorize_params(section);
    issuer.and(client_id).map(|_| LoginProvider { rules, authorize_params, scopes, ..provider })
}

/// The further parameters of the authorization request.
pub(super) fn authorize_params(section: &mut Section<'_>) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (name, value) in section.values("authorize_params") {
        let text = value.as_str();
        // a name that is wrong with any value is reported first
        let checked = check_authorize_param(&name, text.unwrap_or_default());
        match (checked, text) {
            (Ok(()), Some(text)) => parameters.push((name, text.to_owned())),
            (Ok(()), None) => section.fault_of("authorize_params", format!("`{name}` must be a text")),
            (Err(fault), _) => section.fault_of("authorize_params", fault),
        }
    }
    parameters
}

const WHO: &str = "name people: `domains = [\"example.com\"]`, `groups = [\"…\"]` or `subjects = [\"…\"]`; `subjects = \
                   [\"*\"]` is everybody who can log in there";

/// The people of a table with their rights; `None` if it names no one.
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

/// Reads an issuer (OpenID Connect Core 2, RFC 8414 2): kept byte for byte, since tokens and metadata repeat it.
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
        return Err("write only the issuer, without `/.well-known/openid-configuration`".to_owned());
    }
    Ok(text.to_owned())
}

fn with_openid(mut scopes: Vec<String>) -> Vec<String> {
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    scopes
}

fn domain(text: &str) -> Result<String, String> {
    match Host::parse(text) {
        Ok(Host::Domain(name)) if !text.contains(['@', '*']) => Ok(name),
        _ => Err("this must be a domain as in an email address, such as `example.com`".to_owned()),
    }
}

/// A server or a group of servers, with `:read` for only its read-only tools.
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
