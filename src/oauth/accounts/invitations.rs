//! Invitations (`OA-155`, `OA-156`): links that create a key once, and rules that let an address in at a login
//! provider.
//!
//! A link is a secret, and the store holds only its digest. Accepting it gives out the key once. The form that accepted
//! it can show the same key again for ten minutes. During that time the key is stored, encrypted with another key that
//! is derived from the form's token. The token is not stored.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::api_keys::{KeyHolder, KeyRefusal, Keys};
use crate::{
    audit::InvitationEvent,
    model::{
        AllowedNetworks, ApiKey, Direct, Invitation, InvitationId, InvitationLink, InvitationOffer, InvitationRule,
        Invitee, KeyHistory, KeyId, KeyKind, Rights, UserId,
    },
    oauth::{error::OAuthError, secrets::opaque},
    storage::{InvitationAddition, LinkedKey},
    support::{Digest, SealingKey, Secret, Timestamp},
};

/// Length of an id in base62.
const ID_LENGTH: usize = 10;
/// Life of the link of a first start.
const FIRST_LIFE: Duration = Duration::from_hours(3 * 24);
/// Time in which the form that accepted a link gets its key again.
const SEEN_AGAIN: Duration = Duration::from_mins(10);
/// Purpose of the key that seals a new key.
const OUTCOME: &str = "lockkeeper invitation outcome v1";

/// An invitation to make.
#[derive(Debug, Clone)]
pub struct NewInvitation {
    pub offer: InvitationOffer,
    /// Rights that it gives.
    pub rights: Rights,
    /// User who invites; `None`: the operator.
    pub inviter: Option<UserId>,
}

/// The browser's request to accept a link.
#[derive(Debug, Clone, Copy)]
pub struct InvitationRequest<'a> {
    /// Its secret.
    pub link: &'a Secret,
    /// The token of the form, which the caller has verified.
    pub form: &'a Secret,
    /// The browser's address.
    pub from: IpAddr,
}

/// The key that an accepted link created.
#[derive(Debug)]
pub struct AcceptedInvitation {
    /// The holder of the key.
    pub holder: KeyHolder,
    pub key: Secret,
}

/// Refusal of a link.
#[derive(Debug, thiserror::Error)]
pub enum InvitationRefusal {
    /// The link is unknown, used, expired or revoked, even after too many such links. The pages never say which.
    #[error("the link cannot be used")]
    Unusable {
        /// Time until the network may send another link, if it has sent too many.
        retry_after: Option<Duration>,
    },
    #[error(transparent)]
    Unavailable(#[from] OAuthError),
}

pub struct Invitations {
    pub(in crate::oauth) keys: Arc<Keys>,
}

// === impl Invitations ===

impl Invitations {
    /// Makes an invitation. A link has a secret, which is returned only here.
    pub async fn invite(
        &self,
        new: NewInvitation,
    ) -> Result<Result<(Invitation, Option<Secret>), InvitationAddition>, OAuthError> {
        let secret = match new.offer {
            InvitationOffer::Link(_) => Some(opaque::mint_invitation(&*self.keys.deps.random)),
            InvitationOffer::Rule(_) => None,
        };
        let (invitation, digest) = (self.invitation(new), secret.as_ref().map(Secret::digest));
        match self.keys.deps.storage.invitations().add(&invitation, digest.as_ref()).await? {
            InvitationAddition::Added => {
                self.keys.deps.audit.record(InvitationEvent::Created(invitation.clone()));
                Ok(Ok((invitation, secret)))
            }
            refusal => Ok(Err(refusal)),
        }
    }

    /// The invitation of the owner of a gateway, who administers it.
    pub fn of_owner(&self, valid: Duration) -> NewInvitation {
        let link = InvitationLink {
            user: UserId::owner(),
            invitee: Invitee::New,
            key_life: None,
            expires: self.keys.deps.now() + valid,
            key: None,
        };
        let rights = Rights { admin: true, ..Rights::all_backends() };
        NewInvitation { offer: InvitationOffer::Link(link), rights, inviter: None }
    }

    /// Creates the owner's invitation if there was never a key and no such invitation is open. Returns the secret of
    /// its link.
    pub async fn first(&self) -> Result<Option<Secret>, OAuthError> {
        let secret = opaque::mint_invitation(&*self.keys.deps.random);
        let invitation = self.invitation(self.of_owner(FIRST_LIFE));
        if !self.keys.deps.storage.invitations().add_first(&invitation, &secret.digest()).await? {
            return Ok(None);
        }
        self.keys.deps.audit.record(InvitationEvent::Created(invitation));
        Ok(Some(secret))
    }

    /// Every invitation that was not deleted after its end, newest first.
    pub async fn list(&self) -> Result<Vec<Invitation>, OAuthError> {
        Ok(self.keys.deps.storage.invitations().list().await?)
    }

    /// Revokes a link that waits, or a rule; a rule's end also logs out the account that it let in. Returns false if
    /// there is none.
    pub async fn revoke(&self, id: &InvitationId) -> Result<bool, OAuthError> {
        let revoked = self.keys.deps.storage.invitations().revoke(id, self.keys.deps.now()).await?;
        let is_revoked = revoked.is_some();
        if let Some(invitation) = revoked {
            self.keys.deps.audit.record(InvitationEvent::Revoked(invitation));
            self.keys.revocations.sync().await?;
        }
        Ok(is_revoked)
    }

    /// The invitation of a usable link. Any other link counts as a wrong key of the network.
    pub async fn find(&self, link: &Secret, from: IpAddr) -> Result<Invitation, InvitationRefusal> {
        let now = self.keys.deps.now();
        let found = match digest(link) {
            Some(digest) => self.keys.deps.storage.invitations().find_usable(&digest, now).await,
            None => Ok(None),
        };
        found.map_err(OAuthError::from)?.ok_or_else(|| self.unusable(from))
    }

    /// True if this link created this key.
    pub async fn made(&self, link: &Secret, key: &KeyId) -> Result<bool, OAuthError> {
        let Some(digest) = digest(link) else { return Ok(false) };
        let found = self.keys.deps.storage.invitations().find(&digest).await?;
        Ok(found
            .is_some_and(|found| matches!(found.offer, InvitationOffer::Link(link) if link.key.as_ref() == Some(key))))
    }

    /// Accepts a link and creates its key. The same form gets the same key for ten minutes.
    pub async fn accept(&self, request: InvitationRequest<'_>) -> Result<AcceptedInvitation, InvitationRefusal> {
        let Some(digest) = digest(request.link) else { return Err(self.unusable(request.from)) };
        let (deps, now) = (&self.keys.deps, self.keys.deps.now());
        let usable = deps.storage.invitations().find_usable(&digest, now).await.map_err(OAuthError::from)?;
        let Some((invitation, link)) = usable.and_then(|found| match &found.offer {
            InvitationOffer::Link(link) => Some((found.clone(), link.clone())),
            InvitationOffer::Rule(_) => None,
        }) else {
            return self.taken_before(request).await;
        };
        let (text, parts) = opaque::mint_key(&*deps.random);
        let key = ApiKey {
            id: parts.id,
            name: link.user.to_string(),
            user: link.user.clone(),
            rights: invitation.rights.clone(),
            kind: KeyKind::Secret(Direct::Refused),
            created: now,
            expires: link.key_life.map(|life| now + life),
            networks: AllowedNetworks::default(),
            last_used: None,
            revoked: None,
            disabled: None,
            rotated: None,
            history: KeyHistory { given_by: Some(invitation.origin()), ..KeyHistory::default() },
        };
        let sealed =
            SealingKey::derived(request.form, OUTCOME).seal(text.expose().as_bytes(), digest.as_bytes(), &*deps.random);
        let (mac, sealed) = (self.keys.pepper.mac(parts.secret.expose()), sealed.map_err(OAuthError::from)?);
        let made = LinkedKey { key: &key, mac: &mac, outcome: &sealed };
        if !deps.storage.invitations().accept(&digest, made, now).await.map_err(OAuthError::from)? {
            // another submission was faster
            return self.taken_before(request).await;
        }
        let (user, id) = (key.user.clone(), key.id.clone());
        deps.audit.record(InvitationEvent::Taken { invitation, user, key: id });
        self.keys.record_created(&key);
        Ok(AcceptedInvitation { holder: key.into(), key: text })
    }

    /// The key of a link that this form accepted a moment ago; `None` if it did not.
    pub async fn again(&self, request: InvitationRequest<'_>) -> Result<Option<AcceptedInvitation>, OAuthError> {
        let Some(digest) = digest(request.link) else { return Ok(None) };
        let since = self.now() - SEEN_AGAIN;
        let Some(sealed) = self.keys.deps.storage.invitations().outcome(&digest, since).await? else { return Ok(None) };
        let Ok(plain) = SealingKey::derived(request.form, OUTCOME).open(&sealed, digest.as_bytes()) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&plain).unwrap_or_default();
        let Some(parts) = opaque::parse_key(text) else { return Ok(None) };
        let holder = self.keys.holder(&parts.id).await?;
        Ok(holder.map(|holder| AcceptedInvitation { holder, key: Secret::new(text) }))
    }

    /// The same, for when the link turns out to be used.
    async fn taken_before(&self, request: InvitationRequest<'_>) -> Result<AcceptedInvitation, InvitationRefusal> {
        self.again(request).await?.ok_or_else(|| self.unusable(request.from))
    }

    fn unusable(&self, from: IpAddr) -> InvitationRefusal {
        match self.keys.count_wrong_link(from) {
            KeyRefusal::Limited { retry_after } => InvitationRefusal::Unusable { retry_after: Some(retry_after) },
            KeyRefusal::Unknown | KeyRefusal::Unavailable(_) => InvitationRefusal::Unusable { retry_after: None },
        }
    }

    fn invitation(&self, new: NewInvitation) -> Invitation {
        let NewInvitation { offer, rights, inviter } = new;
        Invitation {
            id: InvitationId::new(opaque::base62(&*self.keys.deps.random, ID_LENGTH)),
            offer,
            rights,
            inviter,
            created_by: self.keys.deps.operator(),
            created: self.now(),
            accepted: None,
            revoked: None,
        }
    }

    fn now(&self) -> Timestamp {
        self.keys.deps.now()
    }
}

/// A rule for this address at a provider; it must have one `@`, and is kept in lower case. `None` if it is not an
/// address.
pub fn rule(issuer: &str, email: &str) -> Option<InvitationRule> {
    let email = email.trim().to_lowercase();
    let (local, domain) = email.split_once('@')?;
    let fits = |text: &str| !text.is_empty() && !text.contains(['@', ' ']) && !text.chars().any(char::is_control);
    let is_address = fits(local) && fits(domain) && domain.contains('.') && email.len() <= 254;
    is_address.then(|| InvitationRule { issuer: issuer.to_owned(), email: email.clone(), subject: None })
}

fn digest(link: &Secret) -> Option<Digest> {
    opaque::is_invitation(link.expose()).then(|| link.digest())
}
