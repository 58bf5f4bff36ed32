//! Grants from consent to end, with the codes and tokens based on them.

use std::fmt;

use crate::{
    audit::line::AuditLine,
    model::{ClientId, ConsentRule, Endpoint, Grant, GrantId, KeyId, Scopes, UserId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantEvent {
    /// A person approved a client, or the operator vouches for it.
    Approved {
        user: UserId,
        client: ClientId,
        grant: GrantId,
        /// The endpoint that the grant opens.
        endpoint: Endpoint,
        scopes: Scopes,
        /// Whether the person was asked.
        consent: ConsentRule,
    },
    /// A person denied a client. Without a login the user is unknown.
    Denied { user: Option<UserId>, client: ClientId },
    /// A code became tokens.
    CodeRedeemed(GrantParties),
    /// A code came again within a few seconds: the client retried.
    CodeRepeated(GrantParties),
    /// A code came a second time: its grant is revoked.
    CodeReplayed(GrantParties),
    /// A refresh token was used again after its successor: its grant is revoked.
    RefreshReused(GrantParties),
    /// A client's service account got a token.
    ServiceToken(GrantParties),
    /// A client got a token for a person, with an identity assertion from the person's login provider.
    AssertionToken(GrantParties),
    /// A client revoked one access token.
    TokenRevoked(GrantParties),
    Revoked {
        grant: GrantId,
        /// The grant's user, if that user revoked it.
        user: Option<UserId>,
        by: Revoker,
    },
    /// Several grants were revoked at once.
    SeveralRevoked {
        /// Only this user's; `None`: any user's.
        user: Option<UserId>,
        count: u64,
        by: Revoker,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantParties {
    pub grant: GrantId,
    pub user: UserId,
    pub client: ClientId,
}

/// Party that revoked something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoker {
    /// The operator, on the command line.
    Operator,
    /// A person, with this key.
    Holder(KeyId),
    Client(ClientId),
    /// The OpenID provider with this issuer, which reported a logout or ended a login.
    Provider(String),
    /// Timeout: the provider with this issuer has not confirmed the account within the trusted time.
    Unconfirmed(String),
}

// === impl GrantEvent ===

impl GrantEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Approved { user, client, grant, endpoint, scopes, consent } => approval(*consent)
                .with("user", user)
                .with("client", client)
                .with("grant", grant)
                .with("endpoint", endpoint)
                .with("scopes", scopes),
            Self::Denied { user, client } => {
                L::new("denial", "authorization denied").maybe("user", user.as_ref()).with("client", client)
            }
            Self::CodeRedeemed(parties) => parties.line(L::new("code_redeemed", "code redeemed")),
            Self::CodeRepeated(parties) => {
                parties.line(L::new("code_repeated", "code sent again by its client; nothing is given or revoked"))
            }
            Self::CodeReplayed(parties) => {
                parties.line(L::alarming("code_replayed", "code used twice; the grant is revoked"))
            }
            Self::RefreshReused(parties) => {
                parties.line(L::alarming("refresh_reused", "refresh token reused; the grant is revoked"))
            }
            Self::ServiceToken(parties) => parties.line(L::new("service_token", "token issued to a service account")),
            Self::AssertionToken(parties) => {
                parties.line(L::new("assertion_token", "token issued for an identity assertion"))
            }
            Self::TokenRevoked(parties) => parties.line(L::new("token_revoked", "access token revoked by its client")),
            Self::Revoked { grant, user, by } => L::new("grant_revoked", "grant revoked")
                .maybe("user", user.as_ref())
                .with("grant", grant)
                .with("by", by),
            Self::SeveralRevoked { user, count, by } => L::new("grants_revoked", "grants revoked")
                .maybe("user", user.as_ref())
                .with("count", count)
                .with("by", by),
        }
    }
}

/// An approval, attributed to its author: the operator, for a client that the operator vouches for without asking
/// people (`OA-71`).
fn approval(consent: ConsentRule) -> AuditLine {
    let (text, by) = match consent {
        ConsentRule::Asked => ("authorization approved", "person"),
        ConsentRule::Skipped => ("authorization without a question: the operator vouches for the client", "operator"),
    };
    AuditLine::new("consent", text).with("approved_by", by)
}

// === impl GrantParties ===

impl GrantParties {
    /// The parties of this grant.
    pub fn of(grant: &Grant) -> Self {
        Self { grant: grant.id.clone(), user: grant.user.clone(), client: grant.client.clone() }
    }

    fn line(&self, line: AuditLine) -> AuditLine {
        line.with("user", &self.user).with("client", &self.client).with("grant", &self.grant)
    }
}

impl fmt::Display for Revoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("operator"),
            Self::Holder(key) => write!(f, "key {key}"),
            Self::Client(client) => write!(f, "client {client}"),
            Self::Provider(issuer) => write!(f, "provider {issuer}"),
            Self::Unconfirmed(issuer) => write!(f, "time without a confirmation of {issuer}"),
        }
    }
}
