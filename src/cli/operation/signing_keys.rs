//! `lockkeeper signing-keys`: the keys that sign access tokens. The running gateway applies changes within a second.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::{
    cli::{
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            ending::{self, EndingArgs},
            failure::CommandFailure,
            process::ProcessContext,
            table::{Cell, TextTable},
        },
    },
    oauth::signing::{RotationStart, SigningKeyUse, SigningKeyView},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper signing-keys list
  lockkeeper signing-keys rotate        a new key signs in 10 minutes
  lockkeeper signing-keys rotate --now  a new key signs in 5 seconds
  lockkeeper signing-keys retire KID    its tokens are refused at once

A new key follows automatically after 90 days. Nobody has to log in again after
any of these: apps fetch new access tokens with their refresh tokens.";

/// Subcommands of `signing-keys`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum SigningKeysCommand {
    /// Lists the keys in the order in which they sign
    List(ListSigningKeysArgs),
    /// Creates a key that signs from now on; the one before verifies for as long as its tokens live
    Rotate(RotateSigningKeysArgs),
    /// Ends a key that others may know: its access tokens are refused within a second
    Retire(RetireSigningKeyArgs),
}

/// `signing-keys list`.
#[derive(Debug, clap::Args)]
pub struct ListSigningKeysArgs {
    #[command(flatten)]
    form: FormatArgs,
}

/// `signing-keys rotate`.
#[derive(Debug, clap::Args)]
pub struct RotateSigningKeysArgs {
    /// Has the new key sign in 5 seconds; default: in 10 minutes, so that those who cache the key set know it by then
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    form: FormatArgs,
}

/// `signing-keys retire`.
#[derive(Debug, clap::Args)]
pub struct RetireSigningKeyArgs {
    /// Key id, from `signing-keys list`
    #[arg(allow_hyphen_values = true)]
    kid: String,
    #[command(flatten)]
    ending: EndingArgs,
}

// === impl SigningKeysCommand ===

impl SigningKeysCommand {
    /// Runs the subcommand.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        match self {
            Self::List(list) => list.run(process).await,
            Self::Rotate(rotate) => rotate.run(process).await,
            Self::Retire(retire) => retire.run(process).await,
        }
    }
}

impl ListSigningKeysArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let listed = store.oauth.signing_keys().list().await;
        store.close().await;
        let keys = listed?;
        if self.form.json {
            process.output.json(&documents::list("signing_keys", keys.iter().map(document).collect()));
            return Ok(());
        }
        let mut table = TextTable::new(&["ID", "USE", "SIGNS FROM", "VERIFIES UNTIL"]);
        for key in &keys {
            let until = match key.used {
                SigningKeyUse::Retired(until) => until.to_string(),
                SigningKeyUse::Ended => "(ended)".to_owned(),
                SigningKeyUse::Next | SigningKeyUse::Active => String::new(),
            };
            table.row([
                Cell::from(&key.kid),
                Cell::from(name(key.used)),
                Cell::from(key.signs_from),
                Cell::from(until),
            ]);
        }
        let text = table.render(process.output.out);
        process.output.print(&text);
        Ok(())
    }
}

impl RotateSigningKeysArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let start = if self.now { RotationStart::AtOnce } else { RotationStart::Announced };
        let rotated = store.oauth.signing_keys().rotate(start).await;
        store.close().await;
        let key = rotated?;
        if self.form.json {
            process.output.json(&documents::change(Became::Created, document(&key)));
            return Ok(());
        }
        process.output.remark(&format!("the signing key {} signs from {}", key.kid, key.signs_from));
        Ok(())
    }
}

impl RetireSigningKeyArgs {
    async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let question = format!("Retire the signing key {}? Every access token that it signed ends.", self.kid);
        self.ending.confirm(&question, process)?;
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let withdrawn = store.oauth.signing_keys().withdraw(&self.kid).await;
        store.close().await;
        let kid = &self.kid;
        if withdrawn? {
            let sentence = format!(
                "the signing key {kid} is retired: its access tokens are refused within a second, and apps fetch new \
                 ones by themselves"
            );
            ending::tell(self.ending.form, json!({ "id": kid }), Became::Retired, &sentence, process);
            return Ok(());
        }
        Err(CommandFailure::failed(format!("there is no signing key {kid}"))
            .advise("`lockkeeper signing-keys list` shows the ids"))
    }
}

const fn name(used: SigningKeyUse) -> &'static str {
    match used {
        SigningKeyUse::Next => "next",
        SigningKeyUse::Active => "active",
        SigningKeyUse::Retired(_) => "retired",
        SigningKeyUse::Ended => "ended",
    }
}

fn document(key: &SigningKeyView) -> Value {
    let mut document = json!({ "id": key.kid, "use": name(key.used), "signs_from": key.signs_from.to_string() });
    if let SigningKeyUse::Retired(until) = key.used {
        document["verifies_until"] = json!(until.to_string());
    }
    document
}
