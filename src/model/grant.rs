//! Grants: one consent of one user to one client.

use url::Url;

use super::{ClientId, Endpoint, GrantId, Groups, KeyId, Rights, Scopes, Target, UserId, access};
use crate::support::Timestamp;

/// How the tokens of a grant reach the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenDelivery {
    /// By a code at this redirect URI.
    Redirect(String),
    /// To a device that shows a code (RFC 8628).
    Device,
    /// To the client itself, for its service account (RFC 6749 4.4).
    Service,
    /// To the client itself, for an identity assertion of the user's login provider (ID-JAG).
    Assertion,
}

/// One consent of one user to one client, or its equivalent for a service account or an identity assertion. The token
/// family ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id; `gid` in access tokens.
    pub id: GrantId,
    /// User who consented.
    pub user: UserId,
    /// API key of the login; the grant ends with it (`OA-128`).
    pub key: KeyId,
    pub client: ClientId,
    /// The only endpoint that its tokens open (`OA-114`).
    pub endpoint: Endpoint,
    pub scopes: Scopes,
    /// How its tokens reach the client.
    pub delivery: TokenDelivery,
    /// Time of consent; `auth_time` in access tokens.
    pub created: Timestamp,
    /// End of the grant, regardless of refreshes.
    pub expires: Timestamp,
    /// Last issue or use of a token, exact to about a minute; `None` until the code is redeemed.
    pub last_used: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
}

// === impl TokenDelivery ===

/// Stands in place of a redirect URI, which would have a colon.
const DEVICE: &str = "device";
const SERVICE: &str = "service";
const ASSERTION: &str = "assertion";

impl TokenDelivery {
    /// The redirect URI, or a word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Redirect(uri) => uri,
            Self::Device => DEVICE,
            Self::Service => SERVICE,
            Self::Assertion => ASSERTION,
        }
    }

    /// Reads [`TokenDelivery::as_str`].
    pub fn from_text(text: String) -> Self {
        match text.as_str() {
            DEVICE => Self::Device,
            SERVICE => Self::Service,
            ASSERTION => Self::Assertion,
            _ => Self::Redirect(text),
        }
    }

    /// Origin of the redirect URI: scheme, host and port of a web site, or the private-use scheme of an app. A loopback
    /// origin has no port: apps take a free port each time (RFC 8252 7.3), so the port does not identify an
    /// installation. Without a redirect URI, it is the word for the delivery.
    pub fn origin(&self) -> String {
        let text = self.as_str();
        let Ok(url) = Url::parse(text) else { return text.to_owned() };
        match (url.scheme(), url.host_str()) {
            ("http", Some(host)) => format!("http://{host}"),
            ("https", Some(_)) => url.origin().ascii_serialization(),
            (scheme, _) => format!("{scheme}:"),
        }
    }

    /// The redirect URI, if any.
    pub fn redirect_uri(&self) -> Option<&str> {
        match self {
            Self::Redirect(uri) => Some(uri),
            Self::Device | Self::Service | Self::Assertion => None,
        }
    }
}

// === impl Grant ===

impl Grant {
    /// True if tokens may be issued and used at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && now < self.expires
    }

    /// Rights of its tokens: its scopes at its endpoint, intersected with `key`, the rights of its API key (`OA-113`).
    pub fn rights(&self, key: &Rights, groups: &Groups) -> Rights {
        let rights = access::granted(&self.scopes, &self.endpoint.target, groups, key);
        match &self.endpoint.target {
            Target::Merged => rights,
            Target::Backend(id) => {
                let behind = std::iter::once(id).chain(groups.servers(id));
                Rights { backends: rights.backends.only(behind), ..rights }
            }
        }
    }

    /// Origin of the redirect URI.
    pub fn redirect_origin(&self) -> String {
        self.delivery.origin()
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
            delivery: TokenDelivery::from_text(redirect_uri.to_owned()),
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
        assert_eq!(grant("/mcp", "mcp:use", "").rights(&all, &Groups::default()), Rights::all_backends());
        let at_git = grant("/mcp/git", "mcp:use", "").rights(&all, &Groups::default());
        assert_eq!(at_git.backends.access(&git), Some(Access::Full));
        assert_eq!(at_git.backends.access(&BackendId::parse("time").unwrap()), None);
        let mut read = Rights::none();
        read.backends.allow(&git, Access::ReadOnly);
        assert_eq!(grant("/mcp", "mcp:use mcp:admin", "").rights(&read, &Groups::default()), read);
        assert_eq!(grant("/mcp/time", "mcp:use", "").rights(&read, &Groups::default()), Rights::none());
    }

    #[test]
    fn an_origin_has_no_path_and_a_loopback_origin_no_port() {
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
