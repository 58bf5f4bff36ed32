//! Invitations from their creation to their end. Know nothing of links and rules.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{Invitation, InvitationOffer, KeyId, UserId},
};

/// An event of an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvitationEvent {
    /// It was made.
    Created(Invitation),
    /// Somebody took its link, and has a key by it.
    Taken {
        /// The invitation.
        invitation: Invitation,
        /// The user.
        user: UserId,
        /// The key.
        key: KeyId,
    },
    /// A person came for the first time whom a rule lets in.
    Admitted {
        /// The rule.
        invitation: Invitation,
        /// The person at the provider.
        subject: String,
    },
    /// It was revoked.
    Revoked(Invitation),
    /// A link that cannot be used.
    Refused {
        /// The browser's address.
        from: IpAddr,
    },
}

// === impl InvitationEvent ===

impl InvitationEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Created(invitation) => about(L::new("invitation_created", "invitation made"), invitation)
                .with("by", invitation.inviter.as_ref().map_or("operator", UserId::as_str)),
            Self::Taken { invitation, user, key } => L::new("invitation_accepted", "invitation accepted by its link")
                .with("user", user)
                .with("key", key)
                .with("invitation", &invitation.id),
            Self::Admitted { invitation, subject } => {
                about(L::new("invitation_accepted", "invitation accepted by a login"), invitation)
                    .with("reason", &format!("subject {subject}"))
            }
            Self::Revoked(invitation) => {
                about(L::new("invitation_revoked", "invitation revoked"), invitation).with("by", "operator")
            }
            Self::Refused { from } => {
                L::alarming("invitation_refused", "link of an invitation refused").with("ip", from)
            }
        }
    }
}

/// The invitation, and for whom it is.
fn about(line: AuditLine, invitation: &Invitation) -> AuditLine {
    let line = line.with("invitation", &invitation.id);
    match &invitation.offer {
        InvitationOffer::Link(offered) => line.with("name", &offered.user),
        InvitationOffer::Rule(rule) => line.with("name", &rule.email),
    }
}
