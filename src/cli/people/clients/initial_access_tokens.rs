//! `lockkeeper clients initial-access-tokens`: tokens with which clients may register. The running gateway accepts a
//! new one at once.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::{
    cli::{
        arguments::values,
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            output::Emphasis,
            process::{CommandPurpose, ProcessContext},
            table::{Cell, TextTable},
        },
    },
    model::{InitialAccessToken, InitialAccessTokenId},
    oauth::NewInitialAccessToken,
    support::Timestamp,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper clients initial-access-tokens create build
                                  one client may register, within a day
  lockkeeper clients initial-access-tokens create team --uses 20 --expires 30d
  TOKEN=$(lockkeeper clients initial-access-tokens create build)
                                  standard output has only the token

A client sends it as its bearer token when it registers. It is needed where
the configuration has `registration = \"initial-access-token\"`.";

/// Lifetime of a token without `--expires`.
const LIFETIME: Duration = Duration::from_hours(24);

/// Subcommands of `clients initial-access-tokens`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum InitialAccessTokensCommand {
    /// Creates a token and prints it, once
    Create(CreateInitialAccessTokenArgs),
    /// Lists the tokens, newest first
    List(ListInitialAccessTokensArgs),
    /// Revokes a token; the clients that registered with it stay
    Revoke(RevokeInitialAccessTokenArgs),
}

/// Maximum number of clients that may register with one token.
const MOST_USES: u32 = 100_000;

fn uses(text: &str) -> Result<u32, String> {
    let uses = values::number(text)?;
    if (1..=MOST_USES).contains(&uses) { Ok(uses) } else { Err(format!("a token is for 1 to {MOST_USES} clients")) }
}

/// `clients initial-access-tokens create`.
#[derive(Debug, clap::Args)]
pub struct CreateInitialAccessTokenArgs {
    /// Name of the token, such as what it is for
    #[arg(value_parser = values::name)]
    name: String,
    /// How many clients may register with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = uses)]
    uses: u32,
    /// Time until the token expires. Default: a day
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    form: FormatArgs,
}

/// `clients initial-access-tokens list`.
#[derive(Debug, clap::Args)]
pub struct ListInitialAccessTokensArgs {
    /// Lists revoked, expired and used tokens too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// `clients initial-access-tokens revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeInitialAccessTokenArgs {
    /// Token id, from `clients initial-access-tokens list`
    id: String,
    #[command(flatten)]
    ending: EndingArgs,
}

// === impl InitialAccessTokensCommand ===

impl InitialAccessTokensCommand {
    /// Relation to the running gateway.
    pub(super) const fn purpose(&self) -> CommandPurpose {
        match self {
            Self::List(_) => CommandPurpose::Asks,
            Self::Create(_) | Self::Revoke(_) => CommandPurpose::ChangesData,
        }
    }

    pub(super) async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::Create(create) => create.run(process).await,
            Self::List(list) => list.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl CreateInitialAccessTokenArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let expires = store::now() + self.expires.unwrap_or(LIFETIME);
        let new = NewInitialAccessToken { name: self.name, expires, uses: self.uses };
        let created = store.oauth.initial_access_tokens().create(new).await;
        store.close().await;
        let (token, secret) = created?;
        if self.form.json {
            let mut document = document(&token);
            document["secret"] = json!(secret.expose());
            process.output.json(&documents::change(Became::Created, document));
            return Ok(());
        }
        process.output.print(secret.expose());
        let clients = if token.uses == 1 { "one client".to_owned() } else { format!("{} clients", token.uses) };
        process.output.remark(&format!(
            "token {} ({}): {clients} may register with it until {}\nThe token is not shown again. Revoke it: lockkeeper \
             clients initial-access-tokens revoke {}",
            token.id, token.name, token.expires, token.id
        ));
        Ok(())
    }
}

impl ListInitialAccessTokensArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed = store.oauth.initial_access_tokens().list().await;
        store.close().await;
        let now = store::now();
        let mut tokens = listed?;
        tokens.retain(|token| self.all || token.is_live(now));
        if self.form.json {
            process.output.json(&documents::list("initial_access_tokens", tokens.iter().map(document).collect()));
            return Ok(());
        }
        if tokens.is_empty() {
            process.output.remark("No tokens. Create one: lockkeeper clients initial-access-tokens create NAME");
            return Ok(());
        }
        let mut table = TextTable::new(&["ID", "NAME", "CREATED", "EXPIRES", "USED", "STATE"]);
        for token in &tokens {
            table.row([
                Cell::from(&token.id),
                Cell::from(&token.name),
                Cell::from(token.created),
                Cell::from(token.expires),
                Cell::from(format!("{} of {}", token.used, token.uses)),
                state(token, now),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl RevokeInitialAccessTokenArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.ending.confirm(&format!("Revoke the token {}?", self.id), process)?;
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let revoked = store.oauth.initial_access_tokens().revoke(&InitialAccessTokenId::new(self.id.as_str())).await;
        store.close().await;
        if revoked? {
            let sentence = format!("token {} is revoked; the clients that registered with it stay", self.id);
            ending::tell(self.ending.form, json!({ "id": self.id }), Became::Revoked, &sentence, process);
            return Ok(());
        }
        Err(CommandFailure::failed(format!("there is no live token {}", self.id))
            .advise("`lockkeeper clients initial-access-tokens list` shows the ids"))
    }
}

fn state(token: &InitialAccessToken, now: Timestamp) -> Cell {
    match token.revoked {
        Some(_) => Cell::from("revoked").emphasis(Emphasis::Bad),
        None if token.is_live(now) => Cell::from("live").emphasis(Emphasis::Good),
        None if token.used >= token.uses => Cell::from("used").emphasis(Emphasis::Faint),
        None => Cell::from("expired").emphasis(Emphasis::Waiting),
    }
}

/// A token as JSON, without the secret.
fn document(token: &InitialAccessToken) -> Value {
    json!({
        "id": token.id, "name": token.name, "created": token.created.to_string(),
        "expires": token.expires.to_string(), "uses": token.uses, "used": token.used,
        "revoked": token.revoked.map(|moment| moment.to_string()),
    })
}
