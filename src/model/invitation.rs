//! Invitations as records: a link that makes a key once, or a rule that lets an address in at a login provider.

use std::{fmt, time::Duration};

use super::{InvitationId, KeyId, Rights, UserId};
use crate::support::Timestamp;

/// A stored invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Its id, which grants nothing.
    pub id: InvitationId,
    /// Offer.
    pub offer: InvitationOffer,
    /// Rights that it gives.
    pub rights: Rights,
    /// User who invites; `None`: the operator.
    pub inviter: Option<UserId>,
    /// Maker, such as `operator ann`.
    pub created_by: String,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the acceptance.
    pub accepted: Option<Timestamp>,
    /// Time of the revocation, by a command or with its inviter.
    pub revoked: Option<Timestamp>,
}

/// Offer of an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvitationOffer {
    /// A key, by a link.
    Link(InvitationLink),
    /// A login at a provider.
    Rule(InvitationRule),
}

/// An invitation by a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvitationLink {
    /// User of the key.
    pub user: UserId,
    /// A new user, or an existing one.
    pub invitee: Invitee,
    /// Life of the key; `None` if it does not expire.
    pub key_life: Option<Duration>,
    /// End of the link.
    pub expires: Timestamp,
    /// The key it made.
    pub key: Option<KeyId>,
}

/// A rule for one address at a login provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvitationRule {
    /// Issuer of the provider.
    pub issuer: String,
    /// The email address, in lower case; it counts if the provider marks it as verified.
    pub email: String,
    /// The person there who used it first. The rule lets in no other.
    pub subject: Option<String>,
}

/// The user a link may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invitee {
    /// The link creates a user.
    New,
    /// An existing user, who gets a further key.
    Existing,
}

/// State of an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvitationState {
    Open,
    /// It was accepted. A rule stays in force.
    Accepted,
    /// It was not accepted in time.
    Expired,
    Revoked,
}

// === impl Invitation ===

impl Invitation {
    /// Its state at `now`.
    pub fn state(&self, now: Timestamp) -> InvitationState {
        match (self.revoked, self.accepted, &self.offer) {
            (Some(_), ..) => InvitationState::Revoked,
            (None, Some(_), _) => InvitationState::Accepted,
            (None, None, InvitationOffer::Link(link)) if link.expires <= now => InvitationState::Expired,
            (None, None, _) => InvitationState::Open,
        }
    }

    /// True if it can still be used: a waiting link, or a rule.
    pub fn is_live(&self, now: Timestamp) -> bool {
        match self.state(now) {
            InvitationState::Open => true,
            InvitationState::Accepted => matches!(self.offer, InvitationOffer::Rule(_)),
            InvitationState::Expired | InvitationState::Revoked => false,
        }
    }

    /// Name of the inviter, for people.
    pub fn inviter_name(&self) -> &str {
        self.inviter.as_ref().map_or("the operator of this gateway", UserId::as_str)
    }

    /// The text that names it in a key or account.
    pub fn origin(&self) -> String {
        match &self.inviter {
            Some(inviter) => format!("an invitation of {inviter}"),
            None => format!("an invitation of the {}", self.created_by),
        }
    }
}

impl fmt::Display for InvitationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        })
    }
}
