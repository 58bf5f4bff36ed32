//! Chooses the endpoint and the scopes of a request (`OA-65` to `OA-67`, `OA-112`).

use url::Url;

use super::oauth_settings::OAuthSettings;
use crate::model::{BackendId, Binding, ConcealBackends, Endpoint, Scope, Scopes, Target};

/// The resource is not an endpoint of this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the resource is not an endpoint of this gateway; use the URL from the client's configuration")]
pub struct UnknownResource;

/// What strangers may find out about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrangerVerdict {
    /// Nothing: an existing endpoint looks the same as a missing one.
    Concealed,
    Exists,
    /// It does not exist.
    Unknown,
}

impl OAuthSettings {
    /// The absolute URL of an endpoint: `R(x)`, the audience of its tokens (`OA-3`, `OA-114`).
    pub fn resource(&self, endpoint: &Endpoint) -> String {
        format!("{}{endpoint}", self.issuer)
    }

    /// The URL of an endpoint's metadata (RFC 9728 3.1): the path of the resource after the well-known one.
    pub fn resource_metadata(&self, endpoint: &Endpoint) -> String {
        let (origin, path) = self.split_issuer();
        format!("{origin}/.well-known/oauth-protected-resource{path}{endpoint}")
    }

    /// Origin and path of the issuer; the path is usually empty.
    pub fn split_issuer(&self) -> (&str, &str) {
        let start = self.issuer.find("://").map_or(0, |at| at + 3);
        let end = self.issuer[start..].find('/').map_or(self.issuer.len(), |at| start + at);
        self.issuer.split_at(end)
    }

    /// Endpoint of the `resource` parameters; `None` if there are none (`OA-65`).
    pub fn endpoint_of(&self, resources: &[String]) -> Result<Option<Endpoint>, UnknownResource> {
        let named = self.named_endpoint(resources)?;
        if named.as_ref().is_none_or(|endpoint| self.knows(endpoint)) { Ok(named) } else { Err(UnknownResource) }
    }

    /// The same before the login, where a missing backend may look like an existing one (`OA-6`).
    pub fn endpoint_for_strangers(&self, resources: &[String]) -> Result<Option<Endpoint>, UnknownResource> {
        let named = self.named_endpoint(resources)?;
        let is_unknown = |endpoint: &Endpoint| self.verdict_for_strangers(endpoint) == StrangerVerdict::Unknown;
        if named.as_ref().is_some_and(is_unknown) { Err(UnknownResource) } else { Ok(named) }
    }

    /// The same, even for a missing one.
    fn named_endpoint(&self, resources: &[String]) -> Result<Option<Endpoint>, UnknownResource> {
        let resource = match resources {
            [] => return Ok(None),
            [resource] => resource,
            _ => return Err(UnknownResource),
        };
        let url = Url::parse(resource).map_err(|_| UnknownResource)?;
        if resource.contains('#') || !url.username().is_empty() || url.password().is_some() {
            return Err(UnknownResource);
        }
        // the parser puts scheme and host in lower case and drops default ports; no other difference is allowed
        let issuer = Url::parse(&self.issuer).map_err(|_| UnknownResource)?;
        let path = url.as_str().strip_prefix(issuer.as_str().trim_end_matches('/')).ok_or(UnknownResource)?;
        match path {
            "" | "/" => Ok(Some(Endpoint::MERGED)),
            path => Endpoint::from_path(path).map(Some).ok_or(UnknownResource),
        }
    }

    /// The verdict on an endpoint for people who have not logged in (`OA-6`).
    pub fn verdict_for_strangers(&self, endpoint: &Endpoint) -> StrangerVerdict {
        match self.policy.get().conceal_servers {
            _ if endpoint.target == Target::Merged => StrangerVerdict::Exists,
            ConcealBackends::Yes => StrangerVerdict::Concealed,
            ConcealBackends::No if self.knows(endpoint) => StrangerVerdict::Exists,
            ConcealBackends::No => StrangerVerdict::Unknown,
        }
    }

    /// True if the endpoint exists.
    pub fn knows(&self, endpoint: &Endpoint) -> bool {
        self.backends.have(&endpoint.target)
    }

    /// Endpoint of a request without `resource`: the single backend or group that all its scopes belong to, or else the
    /// merged endpoint (`OA-66`). Every token has an audience.
    pub fn inferred_endpoint(&self, scopes: &Scopes) -> Endpoint {
        let mut backends = scopes.iter().map(backend_of);
        let Some(Some(first)) = backends.next() else { return Endpoint::MERGED };
        let alone = backends.all(|other| other == Some(first));
        let endpoint = Endpoint { binding: Binding::Mcp, target: Target::Backend(first.clone()) };
        if alone && self.knows(&endpoint) { endpoint } else { Endpoint::MERGED }
    }

    /// The existing endpoint and scopes among the requested ones; `None` if the named backend does not exist.
    pub fn resolve(&self, named: Option<&Endpoint>, asked: &Scopes) -> Option<(Endpoint, Scopes)> {
        let endpoint = match named {
            Some(named) => Some(named.clone()).filter(|named| self.knows(named))?,
            None => self.inferred_endpoint(asked),
        };
        let scopes = self.scopes_at(&endpoint, asked);
        Some((endpoint, scopes))
    }

    /// Scopes that a request for `asked` may get at `endpoint`. Leaves out the scopes of other backends and groups; if
    /// none is left, it is the baseline (`OA-67`).
    pub fn scopes_at(&self, endpoint: &Endpoint, asked: &Scopes) -> Scopes {
        let fits = |scope: &&Scope| match (backend_of(scope), &endpoint.target) {
            (None, _) => true,
            (Some(backend), Target::Merged) => self.backends.contains(backend),
            (Some(backend), Target::Backend(own)) => backend == own,
        };
        let fitting: Scopes = asked.iter().filter(fits).cloned().collect();
        if fitting.iter().any(|scope| *scope != Scope::Admin) {
            return fitting;
        }
        fitting.iter().chain(baseline(endpoint).iter()).cloned().collect()
    }
}

/// Scopes for ordinary use of an endpoint (`OA-5`, `OA-111`).
pub fn baseline(endpoint: &Endpoint) -> Scopes {
    let scope = match &endpoint.target {
        Target::Merged => Scope::Use,
        Target::Backend(backend) => Scope::Backend(backend.clone()),
    };
    std::iter::once(scope).collect()
}

fn backend_of(scope: &Scope) -> Option<&BackendId> {
    match scope {
        Scope::Backend(backend) | Scope::BackendRead(backend) => Some(backend),
        Scope::Use | Scope::Admin => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: &str) -> OAuthSettings {
        let backends = ["git", "time"].into_iter().map(|id| BackendId::parse(id).unwrap()).collect();
        OAuthSettings { backends, ..OAuthSettings::new(issuer) }
    }

    fn endpoint(resource: &str) -> Option<String> {
        let found = settings("https://gw.example").endpoint_of(&[resource.to_owned()]);
        found.ok().flatten().map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn a_resource_is_recognised_in_the_forms_that_clients_send() {
        for resource in [
            "https://gw.example",
            "https://gw.example/",
            "https://gw.example/mcp",
            "https://gw.example/mcp/",
            "HTTPS://GW.example:443/mcp",
        ] {
            assert_eq!(endpoint(resource).as_deref(), Some("/mcp"), "{resource}");
        }
        assert_eq!(endpoint("https://gw.example/mcp/git").as_deref(), Some("/mcp/git"));
        for resource in [
            "https://evil/mcp",
            "https://gw.example.evil/mcp",
            "https://gw.example/mcp#f",
            "https://gw.example/mcp/nope",
            "https://gw.example/mcp?x=1",
            "https://u@gw.example/mcp",
            "http://gw.example/mcp",
            "mcp",
        ] {
            assert_eq!(endpoint(resource), None, "{resource}");
        }
        let both = ["https://gw.example/mcp".to_owned(), "https://gw.example/sse".to_owned()];
        assert_eq!(settings("https://gw.example").endpoint_of(&both), Err(UnknownResource));
    }

    #[test]
    fn an_issuer_may_have_a_path() {
        let settings = settings("https://gw.example/p");
        assert_eq!(settings.split_issuer(), ("https://gw.example", "/p"));
        let url = settings.resource_metadata(&Endpoint::MERGED);
        assert_eq!(url, "https://gw.example/.well-known/oauth-protected-resource/p/mcp");
        assert_eq!(settings.endpoint_of(&["https://gw.example/p/mcp".to_owned()]), Ok(Some(Endpoint::MERGED)));
    }

    #[test]
    fn scopes_are_cut_to_the_endpoint_and_never_empty() {
        let settings = settings("https://gw.example");
        let git = Endpoint::from_path("/mcp/git").unwrap();
        let at =
            |endpoint: &Endpoint, text: &str| settings.scopes_at(endpoint, &Scopes::parse(text).unwrap()).to_string();
        assert_eq!(at(&Endpoint::MERGED, "claudeai"), "mcp:use");
        assert_eq!(at(&Endpoint::MERGED, "mcp:git:read mcp:nope"), "mcp:git:read");
        assert_eq!(at(&Endpoint::MERGED, "mcp:admin"), "mcp:use mcp:admin");
        assert_eq!(at(&git, "mcp:time"), "mcp:git");
        let infer = |text: &str| settings.inferred_endpoint(&Scopes::parse(text).unwrap()).to_string();
        assert_eq!(infer("mcp:git mcp:git:read"), "/mcp/git");
        assert_eq!(infer("mcp:git mcp:time"), "/mcp");
        assert_eq!(infer("mcp:nope"), "/mcp");
        assert_eq!(infer(""), "/mcp");
    }
}
