//! `lockkeeper users`: the people and services that own keys. The running gateway applies changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    arguments::FormatArgs,
    failure::CommandFailure,
    output::Emphasis,
    process::ProcessContext,
    store::{AdminStore, IfMissing},
    table::{Cell, TextTable},
};
use crate::model::{UserId, UserOverview};

/// Subcommands of `users`.
#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// Lists the users with the number of their keys and grants
    List(ListUsersArgs),
    /// Lets nothing of a user in until it is enabled again; keys and grants stay
    Disable(UserArgs),
    /// Lets a disabled user in again
    Enable(UserArgs),
    /// Deletes a user with its keys, grants and sessions
    Delete(UserArgs),
}

/// `users list`.
#[derive(Debug, clap::Args)]
pub struct ListUsersArgs {
    #[command(flatten)]
    form: FormatArgs,
}

/// `users disable`, `users enable` and `users delete`.
#[derive(Debug, clap::Args)]
pub struct UserArgs {
    /// The user, from `users list`; a key without a user name is the user `key:ID`
    #[arg(value_name = "USER")]
    user: String,
}

// === impl UsersCommand ===

impl UsersCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Disable(args) => {
                let store = AdminStore::open(process, IfMissing::Refuse).await?;
                let done = store.oauth.users().disable(&args.id()).await;
                store.close().await;
                args.report(process, done?, "is disabled: nothing of it is let in, and what runs ends within a second")
            }
            Self::Enable(args) => {
                let store = AdminStore::open(process, IfMissing::Refuse).await?;
                let done = store.oauth.users().enable(&args.id()).await;
                store.close().await;
                args.report(process, done?, "is enabled, with the keys and grants of before")
            }
            Self::Delete(args) => {
                let store = AdminStore::open(process, IfMissing::Refuse).await?;
                let done = store.oauth.users().delete(&args.id()).await;
                store.close().await;
                args.report(
                    process,
                    done?,
                    "is deleted with its keys, grants and sessions; what runs ends within a second",
                )
            }
        }
    }
}

impl UserArgs {
    fn id(&self) -> UserId {
        UserId::new(self.user.as_str())
    }

    fn report(&self, process: &mut ProcessContext, done: bool, outcome: &str) -> Result<(), CommandFailure> {
        if !done {
            return Err(CommandFailure::failed(format!("there is no user `{}`", self.user))
                .advise("`lockkeeper users list` shows them"));
        }
        process.output.remark(&format!("The user `{}` {outcome}.", self.user));
        Ok(())
    }
}

impl ListUsersArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed = store.oauth.users().list().await;
        store.close().await;
        let users = listed?;
        if self.form.json {
            process.output.json(&users.iter().map(document).collect::<Vec<_>>());
            return Ok(());
        }
        let mut table = TextTable::new(&["USER", "STATE", "KEYS", "GRANTS", "CREATED", "LAST USED"]);
        for user in &users {
            let state = match user.disabled {
                Some(_) => Cell::from("disabled").emphasis(Emphasis::Bad),
                None => Cell::from("enabled").emphasis(Emphasis::Good),
            };
            table.row([
                Cell::from(&user.user),
                state,
                Cell::from(user.keys),
                Cell::from(user.grants),
                Cell::from(user.created),
                Cell::from(user.last_used.map_or("never".to_owned(), |moment| moment.to_string())),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

fn document(user: &UserOverview) -> Value {
    json!({
        "user": user.user,
        "created": user.created.to_string(),
        "disabled": user.disabled.map(|moment| moment.to_string()),
        "keys": user.keys,
        "grants": user.grants,
        "last_used": user.last_used.map(|moment| moment.to_string()),
    })
}
