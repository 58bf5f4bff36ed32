//! The table of invitations.

use std::time::Duration;

use sqlx::AnyConnection;

use super::{
    api_keys,
    columns::columns,
    database::{Database, StorageError, moment},
    provider_logins,
};
use crate::{
    model::{
        ApiKey, Invitation, InvitationId, InvitationLink, InvitationOffer, InvitationRule, Invitee, KeyId, Rights,
        UserId,
    },
    support::{Digest, Timestamp},
};

/// Maximum number of open invitations of one inviter, and of rules in force.
const MAX_OPEN: i64 = 500;

columns! {
    struct InvitationRow {
        id: String,
        user_id: Option<String>,
        further: i64,
        issuer: Option<String>,
        email: Option<String>,
        subject: Option<String>,
        rights: String,
        key_life: Option<i64>,
        inviter: String,
        created_by: String,
        created: i64,
        expires: Option<i64>,
        accepted: Option<i64>,
        key_id: Option<String>,
        revoked: Option<i64>,
    }
}

/// Outcome of a new invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvitationAddition {
    Added,
    /// Its inviter has too many.
    TooMany,
    UserExists,
    /// Its user does not exist, or is disabled.
    NoSuchUser,
    /// It gives administration, and an administrator's key already exists.
    Administered,
    /// It gives more than its inviter has.
    BeyondInviter,
}

/// The key that a link makes.
#[derive(Debug, Clone, Copy)]
pub struct LinkedKey<'a> {
    pub key: &'a ApiKey,
    /// MAC of its secret.
    pub mac: &'a Digest,
    /// The key as text, sealed under the token of the form.
    pub outcome: &'a [u8],
}

/// Invitations.
#[derive(Debug, Clone, Copy)]
pub struct InvitationTable<'a>(pub(super) &'a Database);

impl InvitationTable<'_> {
    /// Adds an invitation; only a link has a digest. An invitation that gives administration ends earlier ones that do.
    pub async fn add(
        &self,
        invitation: &Invitation,
        digest: Option<&Digest>,
    ) -> Result<InvitationAddition, StorageError> {
        let mut change = self.0.change().await?;
        let (now, inviter) = (invitation.created, inviter_text(invitation));
        let open: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM invitations WHERE inviter = $1 AND revoked IS NULL
                 AND (email IS NOT NULL OR (accepted IS NULL AND expires > $2))",
        )
        .bind(inviter)
        .bind(now.as_millis())
        .fetch_one(&mut *change)
        .await?;
        if open >= MAX_OPEN {
            return Ok(InvitationAddition::TooMany);
        }
        if let Some(refusal) = refusal(&mut change, invitation, now).await? {
            return Ok(refusal);
        }
        if invitation.rights.admin {
            let before = "SELECT * FROM invitations WHERE inviter = '' AND revoked IS NULL AND accepted IS NULL AND expires > $1";
            let rows: Vec<InvitationRow> = sqlx::query_as(before).bind(now.as_millis()).fetch_all(&mut *change).await?;
            for earlier in rows.into_iter().map(InvitationRow::read).collect::<Result<Vec<_>, _>>()? {
                if earlier.rights.admin {
                    end(&mut change, &earlier, now).await?;
                }
            }
        }
        insert(&mut change, invitation, digest).await?;
        change.commit().await?;
        Ok(InvitationAddition::Added)
    }

    /// The first invitation of a gateway: added only if there was never a key, and no other invitation for
    /// administration is open. Returns true if it was added.
    pub async fn add_first(&self, invitation: &Invitation, digest: &Digest) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let keys: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM api_keys").fetch_one(&mut *change).await?;
        let waiting = "SELECT COUNT(*) FROM invitations WHERE inviter = '' AND revoked IS NULL AND accepted IS NULL
                           AND expires > $1 AND user_id = $2 AND further = 0";
        let waiting: i64 = sqlx::query_scalar(waiting)
            .bind(invitation.created.as_millis())
            .bind(UserId::owner().as_str())
            .fetch_one(&mut *change)
            .await?;
        if keys > 0 || waiting > 0 {
            return Ok(false);
        }
        insert(&mut change, invitation, Some(digest)).await?;
        change.commit().await?;
        Ok(true)
    }

    /// The invitation whose link has this digest, in any state.
    pub async fn find(&self, digest: &Digest) -> Result<Option<Invitation>, StorageError> {
        lookup(&mut *self.0.pool.acquire().await?, digest).await
    }

    /// The same, if the link can be used at `now`.
    pub async fn find_usable(&self, digest: &Digest, now: Timestamp) -> Result<Option<Invitation>, StorageError> {
        usable(&mut *self.0.pool.acquire().await?, digest, now).await
    }

    /// The key that a link made, sealed, if it was taken since `since`.
    pub async fn outcome(&self, digest: &Digest, since: Timestamp) -> Result<Option<Vec<u8>>, StorageError> {
        let row: Option<(Option<Vec<u8>>,)> =
            sqlx::query_as("SELECT outcome FROM invitations WHERE digest = $1 AND accepted > $2 AND revoked IS NULL")
                .bind(digest.as_bytes().as_slice())
                .bind(since.as_millis())
                .fetch_optional(&self.0.pool)
                .await?;
        Ok(row.and_then(|(outcome,)| outcome))
    }

    /// Accepts a link: adds its key, and its user if new, whose other open links end. Returns false, without changes,
    /// if the link cannot be used; of several concurrent calls only one succeeds.
    pub async fn accept(&self, digest: &Digest, made: LinkedKey<'_>, now: Timestamp) -> Result<bool, StorageError> {
        let mut change = self.0.change().await?;
        let Some(used) = usable(&mut change, digest, now).await? else { return Ok(false) };
        api_keys::insert(&mut change, made.key, Some(made.mac)).await?;
        sqlx::query("UPDATE invitations SET accepted = $1, key_id = $2, outcome = $3 WHERE digest = $4")
            .bind(now.as_millis())
            .bind(made.key.id.as_str())
            .bind(made.outcome)
            .bind(digest.as_bytes().as_slice())
            .execute(&mut *change)
            .await?;
        if let InvitationOffer::Link(link) = &used.offer
            && link.invitee == Invitee::New
        {
            let others = "SELECT * FROM invitations WHERE user_id = $1 AND revoked IS NULL";
            let rows: Vec<InvitationRow> =
                sqlx::query_as(others).bind(link.user.as_str()).fetch_all(&mut *change).await?;
            for other in rows.into_iter().map(InvitationRow::read).collect::<Result<Vec<_>, _>>()? {
                let is_for_new = matches!(&other.offer, InvitationOffer::Link(link) if link.invitee == Invitee::New);
                if is_for_new && other.accepted.is_none() && other.is_live(now) {
                    end(&mut change, &other, now).await?;
                }
            }
        }
        change.commit().await?;
        Ok(true)
    }

    /// The rules that let in a person with this address. Rules not accepted before are this person's from now on; the
    /// result marks them.
    pub async fn take_rules(
        &self,
        issuer: &str,
        subject: &str,
        email: &str,
        now: Timestamp,
    ) -> Result<Vec<TakenRule>, StorageError> {
        let rows: Vec<InvitationRow> = sqlx::query_as(
            "SELECT * FROM invitations WHERE issuer = $1 AND email = $2 AND revoked IS NULL
                 AND (subject IS NULL OR subject = $3)",
        )
        .bind(issuer)
        .bind(email)
        .bind(subject)
        .fetch_all(&self.0.pool)
        .await?;
        self.taken(rows, subject, now).await
    }

    /// The rules that this person has accepted.
    pub async fn rules_of(&self, issuer: &str, subject: &str, now: Timestamp) -> Result<Vec<Invitation>, StorageError> {
        let rows: Vec<InvitationRow> =
            sqlx::query_as("SELECT * FROM invitations WHERE issuer = $1 AND subject = $2 AND revoked IS NULL")
                .bind(issuer)
                .bind(subject)
                .fetch_all(&self.0.pool)
                .await?;
        let taken = self.taken(rows, subject, now).await?;
        Ok(taken.into_iter().map(|taken| taken.rule).collect())
    }

    async fn taken(
        &self,
        rows: Vec<InvitationRow>,
        subject: &str,
        now: Timestamp,
    ) -> Result<Vec<TakenRule>, StorageError> {
        let mut taken = Vec::new();
        for rule in rows.into_iter().map(InvitationRow::read).collect::<Result<Vec<_>, _>>()? {
            if !inviter_may(&mut *self.0.pool.acquire().await?, &rule, now).await? {
                continue;
            }
            let is_new = rule.accepted.is_none();
            if is_new {
                let done = sqlx::query(
                    "UPDATE invitations SET accepted = $1, subject = $2
                     WHERE id = $3 AND subject IS NULL AND revoked IS NULL",
                )
                .bind(now.as_millis())
                .bind(subject)
                .bind(rule.id.as_str())
                .execute(&self.0.pool)
                .await?;
                if done.rows_affected() == 0 {
                    continue;
                }
            }
            taken.push(TakenRule { rule, is_new });
        }
        Ok(taken)
    }

    /// Every invitation that has not been deleted after its end, newest first.
    pub async fn list(&self) -> Result<Vec<Invitation>, StorageError> {
        let rows: Vec<InvitationRow> =
            sqlx::query_as("SELECT * FROM invitations ORDER BY created DESC, id").fetch_all(&self.0.pool).await?;
        rows.into_iter().map(InvitationRow::read).collect()
    }

    /// Revokes a waiting invitation, or a rule, with the login of the account that it let in. `None` if there is none.
    pub async fn revoke(&self, id: &InvitationId, now: Timestamp) -> Result<Option<Invitation>, StorageError> {
        let mut change = self.0.change().await?;
        let row: Option<InvitationRow> = sqlx::query_as("SELECT * FROM invitations WHERE id = $1")
            .bind(id.as_str())
            .fetch_optional(&mut *change)
            .await?;
        let found = row.map(InvitationRow::read).transpose()?.filter(|found| found.is_live(now));
        let Some(invitation) = found else { return Ok(None) };
        end(&mut change, &invitation, now).await?;
        change.commit().await?;
        Ok(Some(invitation))
    }
}

/// A rule that lets the person in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenRule {
    pub rule: Invitation,
    /// True if it was not accepted before.
    pub is_new: bool,
}

/// Ends the invitations that a user made or has not accepted yet, and returns how many were open.
pub(super) async fn end_of_user(
    change: &mut AnyConnection,
    user: &UserId,
    now: Timestamp,
) -> Result<usize, StorageError> {
    let mut ended = 0;
    for statement in [
        "SELECT * FROM invitations WHERE inviter = $1 AND revoked IS NULL",
        "SELECT * FROM invitations WHERE user_id = $1 AND revoked IS NULL",
        "SELECT invitations.* FROM api_keys JOIN invitations
             ON invitations.issuer = api_keys.issuer AND invitations.subject = api_keys.subject
         WHERE api_keys.user_id = $1 AND invitations.revoked IS NULL AND api_keys.subject IS NOT NULL",
    ] {
        let rows: Vec<InvitationRow> = sqlx::query_as(statement).bind(user.as_str()).fetch_all(&mut *change).await?;
        for invitation in rows.into_iter().map(InvitationRow::read).collect::<Result<Vec<_>, _>>()? {
            if invitation.is_live(now) {
                end(change, &invitation, now).await?;
                ended += 1;
            }
        }
    }
    Ok(ended)
}

/// Ends the invitations of a user that give more than the user's keys do now.
pub(super) async fn end_beyond(change: &mut AnyConnection, user: &UserId, now: Timestamp) -> Result<(), StorageError> {
    let rows: Vec<InvitationRow> = sqlx::query_as("SELECT * FROM invitations WHERE inviter = $1 AND revoked IS NULL")
        .bind(user.as_str())
        .fetch_all(&mut *change)
        .await?;
    for invitation in rows.into_iter().map(InvitationRow::read).collect::<Result<Vec<_>, _>>()? {
        if invitation.is_live(now) && !inviter_may(change, &invitation, now).await? {
            end(change, &invitation, now).await?;
        }
    }
    Ok(())
}

/// Ends an invitation. With a rule, the account that it let in is logged out: its next login has the remaining rights.
async fn end(change: &mut AnyConnection, invitation: &Invitation, now: Timestamp) -> Result<(), StorageError> {
    sqlx::query("UPDATE invitations SET revoked = $1, outcome = NULL, expires = coalesce(expires, $1) WHERE id = $2")
        .bind(now.as_millis())
        .bind(invitation.id.as_str())
        .execute(&mut *change)
        .await?;
    if let InvitationOffer::Rule(InvitationRule { issuer, subject: Some(subject), .. }) = &invitation.offer {
        let accounts =
            "SELECT id FROM api_keys WHERE kind = 'provider' AND issuer = $1 AND subject = $2 AND revoked IS NULL";
        let accounts: Vec<String> =
            sqlx::query_scalar(accounts).bind(issuer).bind(subject).fetch_all(&mut *change).await?;
        for account in accounts {
            provider_logins::log_out(change, &KeyId::new(account), now).await?;
        }
    }
    Ok(())
}

/// The invitation of a link that can be used at `now`.
async fn usable(
    connection: &mut AnyConnection,
    digest: &Digest,
    now: Timestamp,
) -> Result<Option<Invitation>, StorageError> {
    let found = lookup(connection, digest).await?.filter(|found| found.accepted.is_none() && found.is_live(now));
    let Some(found) = found else { return Ok(None) };
    Ok(refusal(connection, &found, now).await?.is_none().then_some(found))
}

async fn lookup(connection: &mut AnyConnection, digest: &Digest) -> Result<Option<Invitation>, StorageError> {
    let row: Option<InvitationRow> = sqlx::query_as("SELECT * FROM invitations WHERE digest = $1")
        .bind(digest.as_bytes().as_slice())
        .fetch_optional(connection)
        .await?;
    row.map(InvitationRow::read).transpose()
}

/// The objection against an invitation at `now`: its user, its inviter, or an administrator's key.
async fn refusal(
    connection: &mut AnyConnection,
    invitation: &Invitation,
    now: Timestamp,
) -> Result<Option<InvitationAddition>, StorageError> {
    if invitation.rights.admin && is_administered(connection, now).await? {
        return Ok(Some(InvitationAddition::Administered));
    }
    if !inviter_may(connection, invitation, now).await? {
        return Ok(Some(InvitationAddition::BeyondInviter));
    }
    let InvitationOffer::Link(link) = &invitation.offer else { return Ok(None) };
    let user: Option<(Option<i64>,)> = sqlx::query_as("SELECT disabled FROM users WHERE id = $1 AND deleted IS NULL")
        .bind(link.user.as_str())
        .fetch_optional(connection)
        .await?;
    Ok(match (user, link.invitee) {
        (Some((None,)), Invitee::Existing) | (None, Invitee::New) => None,
        (None, Invitee::Existing) | (Some((Some(_),)), _) => Some(InvitationAddition::NoSuchUser),
        // the owner of a gateway without an administrator
        (Some((None,)), Invitee::New) if invitation.rights.admin => None,
        (Some((None,)), Invitee::New) => Some(InvitationAddition::UserExists),
    })
}

/// True if there is a live key or account with administration.
async fn is_administered(connection: &mut AnyConnection, now: Timestamp) -> Result<bool, StorageError> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM api_keys JOIN users ON users.id = api_keys.user_id
         WHERE api_keys.rights LIKE '%\"admin\":true}' AND api_keys.revoked IS NULL AND users.disabled IS NULL
             AND (api_keys.expires IS NULL OR api_keys.expires > $1) LIMIT 1",
    )
    .bind(now.as_millis())
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}

/// True if an invitation gives no more than its inviter has, by all live keys together. The operator has everything.
async fn inviter_may(
    connection: &mut AnyConnection,
    invitation: &Invitation,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let Some(inviter) = &invitation.inviter else { return Ok(true) };
    let held: Vec<String> = sqlx::query_scalar(
        "SELECT rights FROM api_keys JOIN users ON users.id = api_keys.user_id
         WHERE api_keys.user_id = $1 AND revoked IS NULL AND users.disabled IS NULL AND (expires IS NULL OR expires > $2)",
    )
    .bind(inviter.as_str())
    .bind(now.as_millis())
    .fetch_all(connection)
    .await?;
    let mut all = Rights::none();
    for rights in &held {
        all = all.union(&api_keys::rights(rights)?);
    }
    Ok(!held.is_empty() && invitation.rights.is_within(&all))
}

async fn insert(
    change: &mut AnyConnection,
    invitation: &Invitation,
    digest: Option<&Digest>,
) -> Result<(), StorageError> {
    let (link, rule) = match &invitation.offer {
        InvitationOffer::Link(link) => (Some(link), None),
        InvitationOffer::Rule(rule) => (None, Some(rule)),
    };
    let life = link.and_then(|link| link.key_life).map(|life| i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
    sqlx::query(
        "INSERT INTO invitations (id, digest, user_id, further, issuer, email, rights, key_life, inviter, created_by,
                                  created, expires)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(invitation.id.as_str())
    .bind(digest.map(|digest| digest.as_bytes().to_vec()))
    .bind(link.map(|link| link.user.as_str()))
    .bind(i64::from(link.is_some_and(|link| link.invitee == Invitee::Existing)))
    .bind(rule.map(|rule| rule.issuer.as_str()))
    .bind(rule.map(|rule| rule.email.as_str()))
    .bind(serde_json::to_string(&invitation.rights).map_err(|_| inconsistent("rights"))?)
    .bind(life)
    .bind(inviter_text(invitation))
    .bind(&invitation.created_by)
    .bind(invitation.created.as_millis())
    .bind(link.map(|link| link.expires.as_millis()))
    .execute(change)
    .await?;
    Ok(())
}

fn inviter_text(invitation: &Invitation) -> &str {
    invitation.inviter.as_ref().map_or("", UserId::as_str)
}

impl InvitationRow {
    fn read(self) -> Result<Invitation, StorageError> {
        let offer = match (self.user_id, self.issuer.zip(self.email), self.expires) {
            (Some(user), None, Some(expires)) => InvitationOffer::Link(InvitationLink {
                user: UserId::new(user),
                invitee: if self.further == 0 { Invitee::New } else { Invitee::Existing },
                key_life: self.key_life.map(|life| Duration::from_millis(life.unsigned_abs())),
                expires: moment(expires),
                key: self.key_id.map(KeyId::new),
            }),
            (None, Some((issuer, email)), _) => {
                InvitationOffer::Rule(InvitationRule { issuer, email, subject: self.subject })
            }
            _ => return Err(inconsistent("user_id")),
        };
        Ok(Invitation {
            id: InvitationId::new(self.id),
            offer,
            rights: api_keys::rights(&self.rights).map_err(|_| inconsistent("rights"))?,
            inviter: Some(self.inviter).filter(|inviter| !inviter.is_empty()).map(UserId::new),
            created_by: self.created_by,
            created: moment(self.created),
            accepted: self.accepted.map(moment),
            revoked: self.revoked.map(moment),
        })
    }
}

const fn inconsistent(column: &'static str) -> StorageError {
    StorageError::Inconsistent { table: "invitations", column }
}
