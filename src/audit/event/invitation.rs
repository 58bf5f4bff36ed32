//! Invitations from creation to end.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{Invitation, InvitationOffer, KeyId, UserId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvitationEvent {
    Created(Invitation),
    /// A person followed its link and got a key.
    Taken {
        invitation: Invitation,
        user: UserId,
        key: KeyId,
    },
    /// A person whom a rule lets in came for the first time.
    Admitted {
        invitation: Invitation,
        /// The person's id at the provider.
        subject: String,
    },
    Revoked(Invitation),
    /// A link that cannot be used.
    Refused {
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
            Self::Refused { from } => L::alarming("invitation_refused", "invitation link refused").with("ip", from),
        }
    }
}

/// Adds the invitation, and the user it is for.
fn about(line: AuditLine, invitation: &Invitation) -> AuditLine {
    let line = line.with("invitation", &invitation.id);
    match &invitation.offer {
        InvitationOffer::Link(offered) => line.with("user", &offered.user),
        InvitationOffer::Rule(rule) => line.with("name", &rule.email),
    }
}
