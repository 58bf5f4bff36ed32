//! `lockkeeper keys`: API keys. The running gateway takes notice within a second.

mod rotate;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    Failure, Process,
    arguments::{Data, Form},
    output::{Ink, Style},
    store::{self, Absent, Store},
    table::{Cell, Table},
};
use crate::{
    config::units,
    model::{Access, ApiKey, BackendId, Backends, Direct, KeyId, NewKey, Rights, UserId},
    support::{Secret, Timestamp, printable},
};

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
    #[arg(value_parser = name)]
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
    #[arg(long = "backend", value_name = "ID[:read]", value_parser = backend)]
    backends: Vec<(BackendId, Access)>,
    /// When it ends by itself
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
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
        let created = store.oauth.create_key(new).await;
        store.close().await;
        let (key, secret) = created?;
        show_once(process, self.form, (&key, &secret));
        Ok(())
    }
}

impl List {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let listed = store.oauth.list_keys().await;
        store.close().await;
        let now = store::now();
        let mut keys = listed?;
        keys.retain(|key| self.all || key.is_live(now));
        if self.form.json {
            process.output.json(&keys.iter().map(document).collect::<Vec<_>>());
        } else if keys.is_empty() {
            process.output.remark("There are no keys. Create one: lockkeeper keys create NAME");
        } else {
            let text = render(&keys, now, process.output.out);
            process.output.print(&text);
        }
        Ok(())
    }
}

impl Revoke {
    async fn run(self, process: &mut Process) -> Result<(), Failure> {
        let store = Store::open(&self.data, process, Absent::Refuse).await?;
        let revoked = store.oauth.revoke_key(&KeyId::new(self.id.as_str())).await;
        store.close().await;
        if revoked? {
            process.output.remark(&format!("key {} is revoked; what came from it ends within a second", self.id));
            return Ok(());
        }
        Err(Failure::failed(format!("there is no live key {}", self.id)).advise("`lockkeeper keys list` shows the ids"))
    }
}

/// Prints a key that was just made: the key alone on standard output, what it is beside it.
fn show_once(process: &mut Process, form: Form, (key, secret): (&ApiKey, &Secret)) {
    if form.json {
        let mut document = document(key);
        document["key"] = json!(secret.expose());
        process.output.json(&document);
        return;
    }
    process.output.print(secret.expose());
    let user = if key.user.is_of_key() { "a user of its own".to_owned() } else { format!("user {}", key.user) };
    let what = format!("key {} ({}), {user}: {}", key.id, key.name, rights_text(&key.rights));
    process.output.remark(&format!("{what}\nIt is shown this once. Revoke it: lockkeeper keys revoke {}", key.id));
}

/// The keys as a table.
fn render(keys: &[ApiKey], now: Timestamp, style: Style) -> String {
    let mut table = Table::new(&["ID", "NAME", "USER", "RIGHTS", "DIRECT", "CREATED", "EXPIRES", "LAST USED", "STATE"]);
    let moment = |moment: Option<Timestamp>| Cell::from(moment.map_or("never".to_owned(), |moment| moment.to_string()));
    for key in keys {
        let state = match (&key.rotated, key.revoked) {
            (None, Some(_)) => Cell::from("revoked").ink(Ink::Bad),
            (None, None) if key.is_live(now) => Cell::from("live").ink(Ink::Good),
            (None, None) => Cell::from("expired").ink(Ink::Waiting),
            (Some(rotated), None) if key.is_live(now) => {
                Cell::from(format!("until {}, then {}", rotated.until, rotated.successor)).ink(Ink::Waiting)
            }
            (Some(rotated), _) => Cell::from(format!("replaced by {}", rotated.successor)).ink(Ink::Bad),
        };
        let direct = if key.direct == Direct::Allowed { "yes" } else { "no" };
        table.row([
            Cell::from(&key.id),
            Cell::from(&key.name),
            if key.user.is_of_key() { Cell::from("(own)").ink(Ink::Faint) } else { Cell::from(&key.user) },
            Cell::from(rights_text(&key.rights)),
            Cell::from(direct),
            Cell::from(key.created),
            moment(key.expires),
            moment(key.last_used),
            state,
        ]);
    }
    table.render(style)
}

/// A key as JSON; the secret is not in it.
fn document(key: &ApiKey) -> Value {
    json!({
        "id": key.id, "name": key.name, "user": key.user, "rights": key.rights, "direct": key.direct,
        "created": key.created.to_string(),
        "expires": key.expires.map(|moment| moment.to_string()),
        "last_used": key.last_used.map(|moment| moment.to_string()),
        "revoked": key.revoked.map(|moment| moment.to_string()),
        "successor": key.rotated.as_ref().map(|rotated| &rotated.successor),
        "ends": key.ends().map(|moment| moment.to_string()),
    })
}

/// What a key may do, in words.
fn rights_text(rights: &Rights) -> String {
    let mut words = match &rights.backends {
        Backends::All => vec!["all backends".to_owned()],
        Backends::Only(backends) => backends
            .iter()
            .map(|(id, access)| if *access == Access::Full { id.clone() } else { format!("{id}:read") })
            .collect(),
    };
    words.extend(rights.admin.then(|| "admin".to_owned()));
    words.join(", ")
}

/// A name that people see: 1 to 100 characters, all of which can be shown.
fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 100 || printable(text) != text {
        return Err("a name has 1 to 100 characters that can be shown".to_owned());
    }
    Ok(text.to_owned())
}

fn backend(text: &str) -> Result<(BackendId, Access), String> {
    let (id, access) = match text.strip_suffix(":read") {
        Some(id) => (id, Access::ReadOnly),
        None => (text, Access::Full),
    };
    BackendId::parse(id).map(|id| (id, access)).map_err(|error| error.to_string())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = units::parse_duration(text)?;
    if lifetime < Duration::from_mins(1) || lifetime > Duration::from_hours(24 * 3650) {
        return Err("a key lives between 1m and 3650d".to_owned());
    }
    Ok(lifetime)
}
