//! A server's authorization server and protected resource (RFC 9728 3.3, RFC 8707): who may issue its tokens, and for
//! which resource.

use url::Url;

use super::{endpoint::well_known, error::LoginError};
use crate::model::{AuthorizationSettings, ResourceIndicator};

/// The well-known path of a resource's metadata.
pub(super) const WELL_KNOWN: &str = "oauth-protected-resource";

/// Maximum number of authorization servers that an error names.
const MAX_SHOWN: usize = 3;

/// Maximum length of an identifier that an error suggests for the configuration, in bytes.
const MAX_SUGGESTED: usize = 512;

/// A protected MCP server, with the settings that override what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceServer<'a> {
    pub url: &'a Url,
    pub settings: &'a AuthorizationSettings,
}

/// The authorization servers to ask, out of a server's list: the configured one, or else all in their order.
pub(super) fn choose_issuers<'l>(listed: &'l [String], server: ResourceServer<'_>) -> Result<Vec<&'l str>, LoginError> {
    let ResourceServer { url, settings } = server;
    let found: Vec<&str> = listed
        .iter()
        .filter(|issuer| settings.issuer.as_ref().is_none_or(|wanted| is_same(issuer, wanted)))
        .map(String::as_str)
        .collect();
    if found.is_empty() {
        let shown: Vec<String> = listed.iter().take(MAX_SHOWN).map(|issuer| format!("`{issuer:.200}`")).collect();
        let wanted = settings.issuer.as_deref().unwrap_or_default();
        return Err(LoginError::Untrusted(format!(
            "{url} names the authorization server {}, and `issuer` is `{wanted}`: nothing was sent there. If the client \
             is registered at the one that the server names, correct `issuer` (`--issuer`)",
            shown.join(", ")
        )));
    }
    Ok(found)
}

/// Checks the resource in a document read at `read_from`: it must be the server, or the URL that `read_from` is the
/// well-known form of. So an origin's document may name the origin, but one for a path must not name a parent folder:
/// other servers may live there, and the token would be valid for them too.
pub(super) fn check_resource(resource: &str, server: &Url, read_from: &Url) -> Result<(), LoginError> {
    let is_of_document = |named: &Url| without_slash(well_known(named, WELL_KNOWN)) == without_slash(read_from.clone());
    if is_server(resource, server) || own(resource, server).is_some_and(|named| is_of_document(&named)) {
        return Ok(());
    }
    let reason = format!("the metadata of {server} at {read_from} is that of another resource, `{resource:.512}`");
    let line = if suggestible(resource) {
        format!("If the server may get tokens for it, set `resource = \"{resource}\"` (`--resource {resource}`)")
    } else {
        "Correct it at the server".to_owned()
    };
    Err(LoginError::Untrusted(format!("{reason}: a token for that could open more than this server. {line}")))
}

/// True if tokens from this issuer for this resource may be sent to the server with its current settings.
pub fn fits(server: ResourceServer<'_>, issuer: &str, resource: Option<&str>) -> bool {
    let is_of_issuer = server.settings.issuer.as_ref().is_none_or(|wanted| is_same(wanted, issuer));
    is_of_issuer && is_for_resource(server, resource)
}

fn is_for_resource(server: ResourceServer<'_>, resource: Option<&str>) -> bool {
    let ResourceServer { url, settings } = server;
    match (&settings.resource, resource) {
        (ResourceIndicator::Discovered, Some(resource)) => is_server(resource, url) || own(resource, url).is_some(),
        (ResourceIndicator::Named(named), Some(resource)) => named == resource,
        (ResourceIndicator::Named(_), None) | (ResourceIndicator::Omitted, Some(_)) => false,
        (ResourceIndicator::Discovered | ResourceIndicator::Omitted, None) => true,
    }
}

/// True if two identifiers are equal, ignoring a trailing slash.
pub fn is_same(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}

/// True if this identifies the server itself, ignoring a trailing slash.
pub fn is_server(resource: &str, server: &Url) -> bool {
    let Ok(named) = Url::parse(resource) else { return false };
    let mut server = server.clone();
    server.set_fragment(None);
    without_slash(named) == without_slash(server)
}

/// The resource, if it is the server's origin, or the server without its query.
fn own(resource: &str, server: &Url) -> Option<Url> {
    let named = Url::parse(resource).ok()?;
    let mut bare = server.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    let mut origin = bare.clone();
    origin.set_path("/");
    [bare, origin].into_iter().any(|own| without_slash(own) == without_slash(named.clone())).then_some(named)
}

fn without_slash(mut url: Url) -> Url {
    if let Some(shorter) = url.path().strip_suffix('/').map(str::to_owned) {
        url.set_path(&shorter);
    }
    url
}

/// True if the text fits on a line of configuration.
fn suggestible(resource: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '`' | '\'' | '$');
    resource.len() <= MAX_SUGGESTED && resource.chars().all(is_plain) && Url::parse(resource).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    const AT_ROOT: &str = "https://a.example/.well-known/oauth-protected-resource";
    const AT_PATH: &str = "https://a.example/.well-known/oauth-protected-resource/mcp/b";
    const AT_PARENT: &str = "https://a.example/.well-known/oauth-protected-resource/mcp";

    fn with_issuer(issuer: &str) -> AuthorizationSettings {
        AuthorizationSettings { issuer: Some(issuer.to_owned()), ..AuthorizationSettings::default() }
    }

    #[test]
    fn up_018_the_authorization_server_is_the_configured_one_byte_for_byte() {
        let (server, wanted) = (url("https://a.example/mcp"), "https://as.example/t");
        let choose = |listed: &[&str]| {
            let listed: Vec<String> = listed.iter().map(|&issuer| issuer.to_owned()).collect();
            choose_issuers(&listed, ResourceServer { url: &server, settings: &with_issuer(wanted) })
                .map(|issuers| issuers.join(" "))
                .map_err(|error| error.to_string())
        };
        for listed in [wanted, "https://as.example/t/"] {
            assert_eq!(choose(&["https://evil.example", listed]).as_deref(), Ok(listed));
        }
        for evil in [
            "https://evil.example",
            "https://as.example",
            "https://as.example/t//",
            "https://as.example/T",
            "https://AS.example/t",
            "https://as.example:443/t",
            "https://as.example/%74",
            "https://as.example/t?",
            "http://as.example/t",
            "https://as.example.evil.example/t",
            "https://as.example@evil.example/t",
        ] {
            let text = choose(&[evil]).unwrap_err();
            assert!(text.contains(&format!("`{evil}`")) && text.contains(&format!("`{wanted}`")), "{text}");
        }
        assert!(choose(&vec!["https://evil.example"; 1000]).unwrap_err().len() < 500);
        let listed = ["https://one.example".to_owned(), wanted.to_owned()];
        let unset = AuthorizationSettings::default();
        assert_eq!(choose_issuers(&listed, ResourceServer { url: &server, settings: &unset }).unwrap(), listed);
    }

    #[test]
    fn up_018_tokens_of_another_authorization_server_than_the_configured_one_are_not_used() {
        let server = url("https://a.example/mcp");
        let fits = |settings: &AuthorizationSettings, issuer: &str| {
            fits(ResourceServer { url: &server, settings }, issuer, Some("https://a.example/mcp"))
        };
        assert!(fits(&with_issuer("https://as.example"), "https://as.example/"));
        assert!(!fits(&with_issuer("https://as.example"), "https://evil.example"));
        assert!(fits(&AuthorizationSettings::default(), "https://evil.example"));
    }

    #[test]
    fn up_019_a_document_names_the_server_or_the_url_that_it_is_of() {
        let server = url("https://a.example/mcp/b");
        for (resource, read_from) in [
            ("https://a.example/mcp/b", AT_PATH),
            ("https://a.example/mcp/b/", AT_PATH),
            ("https://A.example:443/mcp/b", "https://elsewhere.example/metadata"),
            ("https://a.example", AT_ROOT),
            ("https://a.example/", AT_ROOT),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource/"),
            ("https://a.example/mcp/b", AT_ROOT),
        ] {
            assert_eq!(check_resource(resource, &server, &url(read_from)), Ok(()), "{resource} at {read_from}");
        }
        for (resource, read_from) in [
            ("https://a.example", AT_PATH),
            ("https://a.example/mcp", AT_PATH),
            ("https://a.example/mcp", AT_PARENT),
            ("https://a.example/mcp", AT_ROOT),
            ("https://a.example/mcp/c", "https://a.example/.well-known/oauth-protected-resource/mcp/c"),
            ("https://a.example/mcp/b/c", "https://a.example/.well-known/oauth-protected-resource/mcp/b/c"),
            // a server that leads to somebody else's metadata
            ("https://b.example", "https://b.example/.well-known/oauth-protected-resource"),
            ("https://b.example/mcp/b", "https://b.example/.well-known/oauth-protected-resource/mcp/b"),
            ("https://a.example", "https://a.example/mcp/b/metadata"),
            ("https://a.example", "https://b.example/.well-known/oauth-protected-resource"),
            ("http://a.example", AT_ROOT),
            ("https://a.example:8443", AT_ROOT),
            ("https://user@a.example", AT_ROOT),
            ("https://a.example/?x", AT_ROOT),
            ("https://a.example/#x", AT_ROOT),
            ("https://a.example/mcp/b#x", AT_PATH),
            ("https://a.example/mcp/b?x", AT_PATH),
            ("https://a.example/mcp/b//", AT_PATH),
            ("api://a", AT_ROOT),
            ("", AT_ROOT),
        ] {
            let refused = check_resource(resource, &server, &url(read_from));
            assert!(matches!(refused, Err(LoginError::Untrusted(_))), "{resource} at {read_from}");
        }
    }

    #[test]
    fn up_019_a_query_of_the_server_need_not_be_named() {
        let server = url("https://a.example/mcp/b?tools=few");
        assert_eq!(check_resource("https://a.example/mcp/b?tools=few", &server, &url(AT_ROOT)), Ok(()));
        assert_eq!(check_resource("https://a.example/mcp/b", &server, &url(AT_PATH)), Ok(()));
        assert!(check_resource("https://a.example/mcp/b", &server, &url("https://a.example/x")).is_err());
        assert!(check_resource("https://a.example/mcp/b?tools=all", &server, &url(AT_PATH)).is_err());
    }

    #[test]
    fn up_019_tokens_for_another_resource_than_the_configured_one_are_not_used() {
        let server = url("https://a.example/mcp/b");
        let named = ResourceIndicator::Named("api://b".to_owned());
        for (resource, of_document, of_setting, without) in [
            (Some("https://a.example/mcp/b"), true, false, false),
            (Some("https://a.example"), true, false, false),
            (Some("https://a.example/mcp"), false, false, false),
            (Some("api://b"), false, true, false),
            (None, true, false, true),
        ] {
            let fits = |resource_setting: &ResourceIndicator| {
                let settings =
                    AuthorizationSettings { resource: resource_setting.clone(), ..AuthorizationSettings::default() };
                fits(ResourceServer { url: &server, settings: &settings }, "https://as.example", resource)
            };
            let found = [&ResourceIndicator::Discovered, &named, &ResourceIndicator::Omitted].map(fits);
            assert_eq!(found, [of_document, of_setting, without], "{resource:?}");
        }
    }

    #[test]
    fn up_019_the_refusal_shows_the_line_to_add() {
        let refused = |resource: &str| {
            check_resource(resource, &url("https://a.example/mcp"), &url("https://a.example/x"))
                .unwrap_err()
                .to_string()
        };
        assert!(refused("api://app-1").contains("set `resource = \"api://app-1\"` (`--resource api://app-1`)"));
        for hostile in
            ["https://a.example/\"\nallow", "https://a.example/$(id)", &format!("https://a/{}", "x".repeat(600))]
        {
            let text = refused(hostile);
            assert!(!text.contains("resource = ") && text.len() < 1000, "{text}");
        }
    }
}
