//! `lockkeeper keys`: API keys. The running gateway takes notice within a second.

mod print;
mod rotate;
mod values;

use std::time::Duration;

use clap::Subcommand;

use super::{
    arguments::{Data, Form},
    failure::Failure,
    process::Process,
    store::{self, Absent, Store},
};
use crate::model::{Access, BackendId, Direct, KeyId, NewKey, Rights, UserId};

const CREATE_EXAMPLES: &str = "\
Examples:
  lockkeeper keys create laptop                       all backends, for logging in through the browser
  lockkeeper keys create ci --direct --expires 90d    a program without a browser sends it as a bearer token
  lockkeeper keys create guest --backend docs --backend git:read
  lockkeeper keys create desktop --user ann            one of several keys of ann: they share sessions, quotas and apps
  KEY=$(lockkeeper keys create ci --direct)           standard output holds the key alone";

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates a key and prints it, once
    Create(Box<Create>),
    /// Lists the keys
    List(List),
    /// Puts a new key in the place of another: same name, rights, user and connected apps, another secret
    Rotate(Box<rotate::Rotate>),
    /// Revokes a key, and with it every grant, token and stream that came from it
    Revoke(Revoke),
}

/// `keys create`.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct Create {
    /// What the key is called, such as the device it is for
    #[arg(value_parser = values::name)]
    name: String,
    /// Joins it to the other keys of this user; without this it is a user of its own
    #[arg(long, value_name = "NAME", value_parser = UserId::parse)]
    user: Option<UserId>,
    /// Lets programs without a browser send it as a bearer token on /mcp
    #[arg(long)]
    direct: bool,
    /// Lets it see and administer the gateway (GET /api/status)
    #[arg(long)]
    admin: bool,
    /// The backends it reaches; `ID:read`: their read-only tools alone. All, where none is given
    #[arg(long = "backend", value_name = "ID[:read]", value_parser = values::backend)]
    backends: Vec<(BackendId, Access)>,
    /// When it ends by itself
    #[arg(long, value_name = "DURATION", value_parser = values::lifetime)]
    expires: Option<Duration>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

/// `keys list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Shows revoked and expired keys too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    data: Data,
}

/// `keys revoke`.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// The key's id, as `keys list` shows it
    id: String,
    #[command(flatten)]
    data: Data,
}

// === impl Command ===

impl Command {
    /// Does it.
    pub async fn run(self, process: &mut Process) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(process).await,
            Self::List(list) => list.run(process).await,
            Self::Rotate(rotate) => rotate.run(process).await,
            Self::Revoke(revoke) => revoke.run(process).await,
        }
    }
}

impl Create {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Create).await?;
        let mut rights = Rights { admin: self.admin, ..Rights::all_backends() };
        if !self.backends.is_empty() {
            rights.backends = Rights::none().backends;
        }
        for (backend, access) in &self.backends {
            rights.backends.allow(backend, *access);
        }
        let direct = if self.direct { Direct::Allowed } else { Direct::Refused };
        let expires = self.expires.map(|lifetime| store::now() + lifetime);
        let new = NewKey { name: self.name, user: self.user, rights, direct, expires };
        let created = store.oauth.keys().create(new).await;
        store.close().await;
        let (key, secret) = created?;
        print::once(process, self.form, (&key, &secret));
        Ok(())
    }
}

impl List {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let listed = store.oauth.keys().list().await;
        store.close().await;
        let now = store::now();
        let mut keys = listed?;
        keys.retain(|key| self.all || key.is_live(now));
        if self.form.json {
            process.output.json(&keys.iter().map(print::document).collect::<Vec<_>>());
        } else if keys.is_empty() {
            process.output.remark("There are no keys. Create one: lockkeeper keys create NAME");
        } else {
            let text = print::table(&keys, now, process.output.out);
            process.output.print(&text);
        }
        Ok(())
    }
}

impl Revoke {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let revoked = store.oauth.keys().revoke(&KeyId::new(self.id.as_str())).await;
        store.close().await;
        if revoked? {
            process.output.remark(&format!("key {} is revoked; what came from it ends within a second", self.id));
            return Ok(());
        }
        Err(Failure::failed(format!("there is no live key {}", self.id)).advise("`lockkeeper keys list` shows the ids"))
    }
}
