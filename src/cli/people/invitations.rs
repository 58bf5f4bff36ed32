//! `lockkeeper invitations`: links that wait for a person, and rules for login providers. The running gateway applies
//! changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::lookup::KeyNames;
use crate::{
    cli::{
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            output::Emphasis,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    model::{Invitation, InvitationId, InvitationOffer, InvitationState, Invitee},
    support::Timestamp,
};

/// Subcommands of `invitations`.
#[derive(Debug, Subcommand)]
pub enum InvitationsCommand {
    /// Lists open invitations, and rules in force, newest first
    List(ListInvitationsArgs),
    /// Revokes an invitation; a rule with the login of the account that it let in
    Revoke(RevokeInvitationArgs),
}

/// `invitations list`.
#[derive(Debug, clap::Args)]
pub struct ListInvitationsArgs {
    /// Lists used, expired and revoked invitations too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// `invitations revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeInvitationArgs {
    /// Invitation id, from `invitations list`
    id: String,
    #[command(flatten)]
    ending: EndingArgs,
}

// === impl InvitationsCommand ===

impl InvitationsCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl ListInvitationsArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let (listed, names) = (store.oauth.invitations().list().await, KeyNames::of(&store).await);
        store.close().await;
        let now = store::now();
        let (mut invitations, names) = (listed?, names?);
        invitations.retain(|invitation| self.all || invitation.is_live(now));
        if self.form.json {
            let described = |invitation: &Invitation| {
                let mut document = document(invitation, now);
                document["key_name"] = json!(invitation.inviter.as_ref().and_then(|inviter| names.get(inviter)));
                document
            };
            process.output.json(&documents::list("invitations", invitations.iter().map(described).collect()));
            return Ok(());
        }
        if invitations.is_empty() {
            process.output.remark("No invitations. Invite somebody: lockkeeper invite NAME");
            return Ok(());
        }
        let mut table = TextTable::new(&["ID", "FOR", "RIGHTS", "BY", "CREATED", "UNTIL", "STATE"]);
        for invitation in &invitations {
            let until = match &invitation.offer {
                InvitationOffer::Link(link) => Cell::from(link.expires),
                InvitationOffer::Rule(_) => Cell::from("revoked"),
            };
            table.row([
                Cell::from(&invitation.id),
                Cell::from(invited(invitation)),
                Cell::from(rights(invitation)),
                Cell::from(
                    invitation.inviter.as_ref().map_or_else(|| invitation.created_by.clone(), |one| names.shown(one)),
                ),
                Cell::from(invitation.created),
                until,
                state(invitation, now),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl RevokeInvitationArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.ending.confirm(&format!("Revoke the invitation {}?", self.id), process)?;
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = store.oauth.invitations().revoke(&InvitationId::new(self.id.as_str())).await;
        store.close().await;
        if revoked? {
            let sentence = format!(
                "invitation {} is revoked: its link no longer works, and a person whom its rule let in is logged out within a second",
                self.id
            );
            ending::tell(self.ending.form, json!({ "id": self.id }), Became::Revoked, &sentence, process);
            return Ok(());
        }
        Err(CommandFailure::failed(format!("there is no open invitation {}, and no such rule", self.id)).advise(
            "`lockkeeper invitations list` shows the ids; a key made by one ends with `lockkeeper keys revoke`",
        ))
    }
}

/// The person that an invitation is for.
fn invited(invitation: &Invitation) -> String {
    match &invitation.offer {
        InvitationOffer::Link(link) if link.invitee == Invitee::Existing => format!("{} (further key)", link.user),
        InvitationOffer::Link(link) => link.user.to_string(),
        InvitationOffer::Rule(rule) => format!("{} at {}", rule.email, rule.issuer),
    }
}

pub(super) fn rights(invitation: &Invitation) -> String {
    invitation.rights.words().join(", ")
}

fn state(invitation: &Invitation, now: Timestamp) -> Cell {
    let state = invitation.state(now);
    match (state, &invitation.offer) {
        (InvitationState::Open, _) => Cell::from(state).emphasis(Emphasis::Good),
        (InvitationState::Accepted, InvitationOffer::Rule(rule)) => {
            let subject = rule.subject.as_deref().unwrap_or_default();
            Cell::from(format!("accepted by {subject}")).emphasis(Emphasis::Good)
        }
        (InvitationState::Accepted, InvitationOffer::Link(_)) => Cell::from(state).emphasis(Emphasis::Faint),
        (InvitationState::Expired, _) => Cell::from(state).emphasis(Emphasis::Waiting),
        (InvitationState::Revoked, _) => Cell::from(state).emphasis(Emphasis::Bad),
    }
}

/// An invitation as JSON, without the secret of its link.
pub(super) fn document(invitation: &Invitation, now: Timestamp) -> Value {
    let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
    let mut document = json!({
        "id": invitation.id, "rights": invitation.rights, "inviter": invitation.inviter,
        "created_by": invitation.created_by, "created": invitation.created.to_string(),
        "accepted": moment(invitation.accepted), "revoked": moment(invitation.revoked),
        "state": invitation.state(now).to_string(),
        "user": null, "further": false, "key_expires_seconds": null, "expires": null, "key": null,
        "issuer": null, "email": null, "subject": null,
    });
    match &invitation.offer {
        InvitationOffer::Link(link) => {
            document["user"] = json!(link.user);
            document["further"] = json!(link.invitee == Invitee::Existing);
            document["key_expires_seconds"] = json!(link.key_life.map(|life| life.as_secs()));
            document["expires"] = json!(link.expires.to_string());
            document["key"] = json!(link.key);
        }
        InvitationOffer::Rule(rule) => {
            document["issuer"] = json!(rule.issuer);
            document["email"] = json!(rule.email);
            document["subject"] = json!(rule.subject);
        }
    }
    document
}
