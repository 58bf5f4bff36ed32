//! Grants: one consent of one user to one client. Knows nothing of the tokens that rest on it.

use url::Url;

use super::{ClientId, Endpoint, GrantId, KeyId, Rights, Scopes, Target, UserId};
use crate::support::Timestamp;

/// One consent of one user to one client; the token family lives and dies with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id; `gid` in access tokens.
    pub id: GrantId,
    /// Who consented.
    pub user: UserId,
    /// The API key that the user had logged in with: the grant dies with it (`OA-128`).
    pub key: KeyId,
    /// To whom.
    pub client: ClientId,
    /// The endpoint that its tokens open, and no other (`OA-114`).
    pub endpoint: Endpoint,
    /// What its tokens may do at most.
    pub scopes: Scopes,
    /// Where the client was answered.
    pub redirect_uri: String,
    /// When the user consented; `auth_time` in access tokens.
    pub created: Timestamp,
    /// When it ends, however often it is refreshed.
    pub expires: Timestamp,
    /// When a token was last issued for it or used, exact to about a minute; `None` until its code was redeemed.
    pub last_used: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

impl Grant {
    /// Whether tokens may be issued and used on it at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && now < self.expires
    }

    /// What its tokens may do: its scopes at its endpoint, as far as `key`, the rights of the key that it came from,
    /// reach (`OA-113`).
    pub fn rights(&self, key: &Rights) -> Rights {
        let rights = self.scopes.rights().intersect(key);
        match &self.endpoint.target {
            Target::Merged => rights,
            Target::Backend(backend) => Rights { backends: rights.backends.only(backend), ..rights },
        }
    }

    /// The origin that the client was answered at: scheme, host and port of a web site, the scheme of an app's own kind
    /// of link. That of a loopback address has no port: apps take a free one each time (RFC 8252 7.3), so that its port
    /// tells no installation from another.
    pub fn redirect_origin(&self) -> String {
        let Ok(url) = Url::parse(&self.redirect_uri) else { return self.redirect_uri.clone() };
        match (url.scheme(), url.host_str()) {
            ("http", Some(host)) => format!("http://{host}"),
            ("https", Some(_)) => url.origin().ascii_serialization(),
            (scheme, _) => format!("{scheme}:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Access, BackendId};

    fn grant(path: &str, scopes: &str, redirect_uri: &str) -> Grant {
        Grant {
            id: GrantId::new("g"),
            user: UserId::new("ann"),
            key: KeyId::new("k"),
            client: ClientId::new("c"),
            endpoint: Endpoint::from_path(path).unwrap(),
            scopes: Scopes::parse(scopes).unwrap(),
            redirect_uri: redirect_uri.to_owned(),
            created: Timestamp::from_seconds(0),
            expires: Timestamp::from_seconds(1),
            last_used: None,
            revoked: None,
        }
    }

    #[test]
    fn a_grant_allows_what_its_scopes_its_endpoint_and_its_key_allow() {
        let git = BackendId::parse("git").unwrap();
        let all = Rights { admin: true, ..Rights::all_backends() };
        assert_eq!(grant("/mcp", "mcp:use", "").rights(&all), Rights::all_backends());
        let at_git = grant("/mcp/git", "mcp:use", "").rights(&all);
        assert_eq!(at_git.backends.access(&git), Some(Access::Full));
        assert_eq!(at_git.backends.access(&BackendId::parse("time").unwrap()), None);
        let mut read = Rights::none();
        read.backends.allow(&git, Access::ReadOnly);
        assert_eq!(grant("/mcp", "mcp:use mcp:admin", "").rights(&read), read);
        assert_eq!(grant("/mcp/time", "mcp:use", "").rights(&read), Rights::none());
    }

    #[test]
    fn an_origin_has_no_path_and_on_this_computer_no_port() {
        for (uri, origin) in [
            ("http://127.0.0.1:33418/callback?x", "http://127.0.0.1"),
            ("http://127.0.0.1/", "http://127.0.0.1"),
            ("http://[::1]:7/cb", "http://[::1]"),
            ("http://localhost:7/cb", "http://localhost"),
            ("https://Claude.AI/api/mcp/auth_callback", "https://claude.ai"),
            ("https://claude.ai:443/x", "https://claude.ai"),
            ("https://claude.ai:8443/x", "https://claude.ai:8443"),
            ("cursor://anysphere.cursor/x", "cursor:"),
            ("com.example.app:/cb", "com.example.app:"),
        ] {
            assert_eq!(grant("/mcp", "mcp:use", uri).redirect_origin(), origin, "{uri}");
        }
    }
}
