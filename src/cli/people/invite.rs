//! `lockkeeper invite`: makes a link that gives a person a key, or a rule that lets an address in at a login provider.

use std::time::Duration;

use serde_json::json;

use super::{invitations, lookup::meant_user, rights_args::OpenedArgs};
use crate::{
    cli::{
        arguments::{self, values},
        running::gateway_client::GatewayClient,
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    model::{Invitation, InvitationLink, InvitationOffer, Invitee, Rights, UserId},
    oauth::{NewInvitation, invitation_rule},
    storage::InvitationAddition,
    support::Secret,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper invite ann                       all servers, by a link for 3 days
  lockkeeper invite bob --server docs --server git:read --key-expires 90d
  lockkeeper invite ann --again               another key, with her rights
  lockkeeper invite owner                     the owner of a new gateway
  lockkeeper invite --email ann@example.com --login corp --group work
                                              at the provider [login.corp]
  LINK=$(lockkeeper invite ann)               standard output has only the link

A link works once. Only the owner's invitation gives administration, and only
while there is no administrator's key.";

/// Validity of a link without `--valid`.
const VALID: Duration = Duration::from_hours(3 * 24);

/// `invite`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct InviteArgs {
    /// The user: must be new, unless --again
    #[arg(value_name = "NAME", value_parser = UserId::parse, required_unless_present = "email")]
    user: Option<UserId>,
    /// Lets this email address in at a login provider, until the invitation is revoked
    #[arg(long, value_name = "ADDRESS", requires = "login", conflicts_with_all = ["user", "again", "valid", "key_expires"])]
    email: Option<String>,
    /// The login provider: NAME of its table [login.NAME]
    #[arg(long, value_name = "NAME", requires = "email")]
    login: Option<String>,
    #[command(flatten)]
    rights: OpenedArgs,
    /// Time until the key expires, counted from the acceptance. Default: never
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    key_expires: Option<Duration>,
    /// Time for which the link can be used. Default: 3 days
    #[arg(long, value_name = "DURATION", value_parser = values::validity)]
    valid: Option<Duration>,
    /// Makes another key for an existing user: anyone who opens the link becomes that user. Default rights: those of
    /// the user's keys
    #[arg(long)]
    again: bool,
    /// Invites in the name of this user, within the user's rights; it ends with them. A key without a user name counts as a
    /// user, by its id or name. Default: the operator
    #[arg(long, value_name = "USER")]
    by: Option<String>,
    #[command(flatten)]
    form: FormatArgs,
}

impl InviteArgs {
    /// Runs the command.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.rights.check(process).await?;
        let rule = self.rule(process)?;
        let store = AdminStore::open(process, IfMissing::Create).await?;
        let made = self.make(&store, rule).await;
        store.close().await;
        let (invitation, secret) = made?;
        let address = secret.as_ref().map(|secret| address(process, secret));
        if self.form.json {
            let mut document = invitations::document(&invitation, store::now());
            document["link"] = json!(address.map(|(address, _)| address));
            process.output.json(&documents::change(Became::Created, document));
            return Ok(());
        }
        if let Some((address, _)) = &address {
            process.output.print(address);
        }
        let remark = remark(&invitation);
        process.output.remark(&remark);
        if let Some((_, InvitationReach::ThisMachine)) = address {
            process.output.remark(
                "Only this machine can open the link. For others, set `public_url` to the address that they use, such as \
                 `https://mcp.example.com`, and restart the gateway.",
            );
        }
        Ok(())
    }

    /// The rule to offer, if `--email` is given.
    fn rule(&self, process: &ProcessContext) -> Result<Option<InvitationOffer>, CommandFailure> {
        let (Some(email), Some(login)) = (&self.email, &self.login) else { return Ok(None) };
        let config = arguments::load(&process.options.given(), process)?;
        let Some(spec) = config.login.iter().find(|spec| spec.name == *login) else {
            let names: Vec<&str> = config.login.iter().map(|spec| &*spec.name).collect();
            let advice = match names[..] {
                [] => "there are none: write a table [login.NAME] into the configuration".to_owned(),
                _ => format!("the providers are {}", names.join(", ")),
            };
            return Err(CommandFailure::failed(format!("there is no login provider `{login}`")).advise(advice));
        };
        let Some(rule) = invitation_rule(&spec.issuer, email) else {
            return Err(CommandFailure::usage(format!("`{email}` is not an email address"))
                .advise("write it as the provider does, such as ann@example.com"));
        };
        Ok(Some(InvitationOffer::Rule(rule)))
    }

    async fn make(
        &self,
        store: &AdminStore,
        rule: Option<InvitationOffer>,
    ) -> Result<(Invitation, Option<Secret>), CommandFailure> {
        let invitations = store.oauth.invitations();
        let valid = self.valid.unwrap_or(VALID);
        if self.user == Some(UserId::owner()) && self.is_plain() {
            match invitations.invite(invitations.of_owner(valid)).await? {
                Ok(made) => return Ok(made),
                // once there is an administrator, `owner` is a name like any other
                Err(InvitationAddition::Administered) => {}
                Err(refusal) => return Err(self.refused(refusal)),
            }
        }
        let link = || InvitationLink {
            user: self.user.clone().unwrap_or_else(UserId::owner),
            invitee: if self.again { Invitee::Existing } else { Invitee::New },
            key_life: self.key_expires,
            expires: store::now() + valid,
            key: None,
        };
        let offer = rule.unwrap_or_else(|| InvitationOffer::Link(link()));
        let rights = match &self.user {
            Some(user) if self.again && self.rights.is_empty() => present_rights(user, store).await?,
            _ => self.rights.rights(),
        };
        let inviter = match &self.by {
            Some(by) => Some(meant_user(store, by, "invite --by").await?),
            None => None,
        };
        let new = NewInvitation { offer, rights, inviter };
        invitations.invite(new).await?.map_err(|refusal| self.refused(refusal))
    }

    /// True if no option says more about the key or who invites.
    fn is_plain(&self) -> bool {
        self.rights.is_empty() && self.key_expires.is_none() && !self.again && self.by.is_none()
    }

    fn refused(&self, refusal: InvitationAddition) -> CommandFailure {
        let user = self.user.as_ref().map_or("", UserId::as_str);
        let by = self.by.as_deref().unwrap_or("the operator");
        match refusal {
            InvitationAddition::UserExists => CommandFailure::failed(format!("the user `{user}` exists"))
                .advise("`--again` makes another key for it; give the link to nobody else"),
            InvitationAddition::NoSuchUser => {
                CommandFailure::failed(format!("there is no user `{user}`, or it is disabled"))
                    .advise("`lockkeeper users list` shows them; a new user is invited without `--again`")
            }
            InvitationAddition::TooMany => CommandFailure::failed(format!("too many invitations of {by} are open"))
                .advise("`lockkeeper invitations list` shows them, `lockkeeper invitations revoke ID` ends one"),
            InvitationAddition::BeyondInviter => {
                CommandFailure::failed(format!("{by} cannot give these rights, and has no live key with that many"))
                    .advise("name fewer with `--server` and `--group`, or leave out `--by`")
            }
            InvitationAddition::Administered | InvitationAddition::Added => {
                CommandFailure::failed("there is an administrator's key already")
                    .advise("`lockkeeper keys create NAME --admin` makes another one")
            }
        }
    }
}

/// The combined rights of a user's live keys, without administration; all servers if there are no such keys.
async fn present_rights(user: &UserId, store: &AdminStore) -> Result<Rights, CommandFailure> {
    let keys = store.oauth.keys().list().await?;
    let live = keys.into_iter().filter(|key| key.user == *user && key.is_live(store::now()));
    let rights = live.map(|key| key.rights).reduce(|all, one| all.union(&one));
    Ok(rights.map_or_else(Rights::all_backends, |rights| Rights { admin: false, ..rights }))
}

/// The machines that can open a link.
enum InvitationReach {
    ThisMachine,
    PublicUrl,
}

/// The path and query of a link.
pub(super) fn path(secret: &Secret) -> String {
    format!("/invite?i={}", secret.expose())
}

/// The address of a link: at the public URL, else at the gateway that runs here, else where a gateway would listen.
fn address(process: &ProcessContext, secret: &Secret) -> (String, InvitationReach) {
    let path = path(secret);
    let config = arguments::load(&process.options.given(), process).ok();
    if let Some(url) = config.as_ref().and_then(|config| config.public_url.as_ref()) {
        return (format!("{url}{path}"), InvitationReach::PublicUrl);
    }
    if let Ok(gateway) = GatewayClient::local(process)
        && let Some(root) = gateway.public_url()
    {
        let is_local = gateway.loopback_url().is_some();
        let reach = if is_local { InvitationReach::ThisMachine } else { InvitationReach::PublicUrl };
        return (format!("{root}{path}"), reach);
    }
    let root = config.map(|config| config.public_url(config.listen).to_string());
    (format!("{}{path}", root.unwrap_or_default()), InvitationReach::ThisMachine)
}

fn remark(invitation: &Invitation) -> String {
    let revoke = format!("Revoke it: lockkeeper invitations revoke {}", invitation.id);
    match &invitation.offer {
        InvitationOffer::Link(link) => format!(
            "invitation {} for {}: {}\nThe link works once, until {}. Give it only to {}. {revoke}",
            invitation.id,
            link.user,
            invitations::rights(invitation),
            link.expires,
            link.user
        ),
        InvitationOffer::Rule(rule) => format!(
            "invitation {}: {} may log in at {}, with {}\n{revoke}",
            invitation.id,
            rule.email,
            rule.issuer,
            invitations::rights(invitation)
        ),
    }
}
