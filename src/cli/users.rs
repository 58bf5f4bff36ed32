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
use crate::model::{EndedUser, UserId, UserOverview};

/// Subcommands of `users`.
#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// Lists the users with the number of their keys and grants
    List(ListUsersArgs),
    /// Lets nothing of a user in until it is enabled again; keys and grants stay
    Disable(UserArgs),
    /// Lets a disabled user in again
    Enable(UserArgs),
    /// Deletes a user with everything that is held for it, and lists what ended
    Delete(DeleteUserArgs),
}

/// `users list`.
#[derive(Debug, clap::Args)]
pub struct ListUsersArgs {
    #[command(flatten)]
    form: FormatArgs,
}

/// `users delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteUserArgs {
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    form: FormatArgs,
}

/// `users disable` and `users enable`.
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
            Self::Delete(args) => args.run(process).await,
        }
    }
}

impl DeleteUserArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let ended = store.oauth.users().delete(&self.user.id()).await;
        store.close().await;
        let Some(ended) = ended? else { return Err(self.user.unknown()) };
        if self.form.json {
            process.output.json(&ended_document(&self.user.user, &ended));
            return Ok(());
        }
        let text = ended_text(&ended);
        process.output.print(&text);
        process.output.remark(&format!(
            "The user `{}` is deleted. What runs for it alone ends within a second: calls, streams, sessions, processes, and the \
             lists and tickets that the gateway remembers.",
            self.user.user
        ));
        Ok(())
    }
}

/// A line for each kind of thing that ended.
fn ended_text(ended: &EndedUser) -> String {
    let keys: Vec<String> = ended.keys.iter().map(|(name, id)| format!("{name} ({id})")).collect();
    let apps: Vec<String> = ended.apps.iter().map(|(name, endpoint)| format!("{name} at {endpoint}")).collect();
    let lines = [
        named("Keys and accounts", &keys),
        named("Apps", &apps),
        named("Accounts at servers", &ended.accounts),
        named("Secrets for servers", &ended.secrets),
        counted("Sessions of apps", ended.sessions),
        counted("Browser sessions", ended.browsers),
        counted("Tasks at servers", ended.tasks),
        counted("Devices that waited for tokens", ended.devices),
        counted("Open invitations and rules", ended.invitations),
    ];
    let text: String = lines.into_iter().flatten().collect();
    if text.is_empty() { "Nothing was held for it.\n".to_owned() } else { text }
}

fn named(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}\n", names.join(", ")))
}

fn counted(what: &str, count: i64) -> Option<String> {
    (count > 0).then(|| format!("{what}: {count}\n"))
}

fn ended_document(user: &str, ended: &EndedUser) -> Value {
    let keys: Vec<Value> = ended.keys.iter().map(|(name, id)| json!({ "id": id, "name": name })).collect();
    let apps: Vec<Value> =
        ended.apps.iter().map(|(name, endpoint)| json!({ "client_name": name, "endpoint": endpoint })).collect();
    json!({
        "user": user, "keys": keys, "apps": apps, "accounts": ended.accounts, "secrets": ended.secrets,
        "sessions": ended.sessions, "browser_sessions": ended.browsers, "tasks": ended.tasks,
        "devices": ended.devices, "invitations": ended.invitations,
    })
}

impl UserArgs {
    fn id(&self) -> UserId {
        UserId::new(self.user.as_str())
    }

    fn unknown(&self) -> CommandFailure {
        CommandFailure::failed(format!("there is no user `{}`", self.user)).advise("`lockkeeper users list` shows them")
    }

    fn report(&self, process: &mut ProcessContext, done: bool, outcome: &str) -> Result<(), CommandFailure> {
        if !done {
            return Err(self.unknown());
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
