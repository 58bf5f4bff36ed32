//! `lockkeeper users`: the people and services that own keys. The running gateway applies changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use super::lookup::{KeyNames, meant_user};
use crate::{
    cli::{
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            output::{Emphasis, number_of},
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    model::{EndedUser, UserId, UserOverview},
};

/// Subcommands of `users`.
#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// Lists the users with the number of their keys and grants
    List(ListUsersArgs),
    /// Locks a user out until it is enabled again; keys and grants stay
    Disable(SwitchUserArgs),
    /// Lets a disabled user in again
    Enable(SwitchUserArgs),
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
    ending: EndingArgs,
}

/// `users disable` and `users enable`.
#[derive(Debug, clap::Args)]
pub struct SwitchUserArgs {
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    form: FormatArgs,
}

/// The user of a command.
#[derive(Debug, clap::Args)]
pub struct UserArgs {
    /// The user, from `users list`; a key without a user name is the user `key:ID`, or the name of the key
    #[arg(value_name = "USER")]
    user: String,
}

#[derive(Clone, Copy)]
enum Switch {
    Off,
    On,
}

// === impl UsersCommand ===

impl UsersCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Disable(args) => args.run(Switch::Off, process).await,
            Self::Enable(args) => args.run(Switch::On, process).await,
            Self::Delete(args) => args.run(process).await,
        }
    }
}

impl SwitchUserArgs {
    async fn run(self, switch: Switch, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let switched = self.switch(switch, &store).await;
        store.close().await;
        let id = switched?;
        let (became, outcome) = match switch {
            Switch::Off => {
                (Became::Disabled, "is disabled: it can no longer log in or call, and what runs ends within a second")
            }
            Switch::On => (Became::Enabled, "is enabled, with its previous keys and grants"),
        };
        ending::tell(self.form, json!({ "id": id }), became, &format!("The user `{id}` {outcome}."), process);
        Ok(())
    }

    async fn switch(&self, switch: Switch, store: &AdminStore) -> Result<UserId, CommandFailure> {
        let command = match switch {
            Switch::Off => "users disable",
            Switch::On => "users enable",
        };
        let id = meant_user(store, &self.user.user, command).await?;
        let users = store.oauth.users();
        let is_done = match switch {
            Switch::Off => users.disable(&id).await?,
            Switch::On => users.enable(&id).await?,
        };
        if is_done { Ok(id) } else { Err(self.user.unknown()) }
    }
}

impl DeleteUserArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let deleted = self.delete(&store, process).await;
        store.close().await;
        let (id, ended) = deleted?;
        if self.ending.form.json {
            process.output.json(&ended_document(id.as_str(), &ended));
            return Ok(());
        }
        let text = ended_text(&ended);
        process.output.print(&text);
        process.output.remark(&format!(
            "The user `{id}` is deleted. What runs only for it ends within a second: calls, streams, sessions, \
             processes, and the \
             lists and tickets that the gateway remembers."
        ));
        Ok(())
    }

    async fn delete(
        &self,
        store: &AdminStore,
        process: &mut ProcessContext,
    ) -> Result<(UserId, EndedUser), CommandFailure> {
        let id = meant_user(store, &self.user.user, "users delete").await?;
        let users = store.oauth.users().list().await?;
        if let Some(user) = users.iter().find(|user| user.user == id) {
            let (keys, grants) = (number_of(user.keys, "key"), number_of(user.grants, "grant"));
            let question = format!("Delete the user `{id}` with {keys} and {grants}, for good?");
            self.ending.confirm(&question, process)?;
        }
        let ended = store.oauth.users().delete(&id).await?.ok_or_else(|| self.user.unknown())?;
        Ok((id, ended))
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
    let what = json!({
        "id": user, "keys": keys, "apps": apps, "accounts": ended.accounts, "secrets": ended.secrets,
        "sessions": ended.sessions, "browser_sessions": ended.browsers, "tasks": ended.tasks,
        "devices": ended.devices, "invitations": ended.invitations,
    });
    documents::change(Became::Deleted, what)
}

impl UserArgs {
    fn unknown(&self) -> CommandFailure {
        CommandFailure::failed(format!("there is no user `{}`", self.user)).advise("`lockkeeper users list` shows them")
    }
}

impl ListUsersArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let (listed, names) = (store.oauth.users().list().await, KeyNames::of(&store).await);
        store.close().await;
        let (users, names) = (listed?, names?);
        if self.form.json {
            let documents = users.iter().map(|user| document(user, &names)).collect();
            process.output.json(&documents::list("users", documents));
            return Ok(());
        }
        let mut table = TextTable::new(&["USER", "STATE", "KEYS", "GRANTS", "CREATED", "LAST USED"]);
        for user in &users {
            let state = match user.disabled {
                Some(_) => Cell::from("disabled").emphasis(Emphasis::Bad),
                None => Cell::from("enabled").emphasis(Emphasis::Good),
            };
            table.row([
                Cell::from(names.shown(&user.user)),
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

fn document(user: &UserOverview, names: &KeyNames) -> Value {
    json!({
        "id": user.user,
        "key_name": names.get(&user.user),
        "created": user.created.to_string(),
        "disabled": user.disabled.map(|moment| moment.to_string()),
        "keys": user.keys,
        "grants": user.grants,
        "last_used": user.last_used.map(|moment| moment.to_string()),
    })
}
