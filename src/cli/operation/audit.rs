//! `lockkeeper audit`: prints the audit trail, also while the gateway runs.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::{
    cli::{
        arguments::values,
        people::lookup::{KeyNames, meant_user},
        store::{self, AdminStore, IfMissing},
        terminal::{failure::CommandFailure, process::ProcessContext},
    },
    config::units,
    model::{KeyId, UserId},
    storage::{AuditRow, AuditSearch, StoredAuditRow},
    support::printable,
};

/// Interval at which `--follow` looks for new rows.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of rows read at once with `--follow`.
const BATCH: u32 = 1_000;

const EXAMPLES: &str = "\
Examples:
  lockkeeper audit --since 2h
  lockkeeper audit --user ann --event consent
  lockkeeper audit --request 5bd2c04e8f1a9d37   the id on an error page
  lockkeeper audit --follow --json";

/// `audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AuditArgs {
    /// Prints only what concerns this user; a key without a user name counts as a user, by its id or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Prints only what concerns this client
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Prints only events of this name, such as `login` or `key_refused`
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Prints only events of the request with this correlation id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Prints only events within this time, such as `2h` or `30d`
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    since: Option<Duration>,
    /// Prints the newest events, at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = values::number::<u32>)]
    limit: u32,
    /// Keeps printing events as they happen
    #[arg(long)]
    follow: bool,
    /// Prints each event as a line of JSON
    #[arg(long)]
    json: bool,
}

// === impl AuditArgs ===

impl AuditArgs {
    /// Runs the command.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let printed = self.print(&store, process).await;
        store.close().await;
        printed
    }

    async fn print(self, store: &AdminStore, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let since = self.since.map(|since| store::now() - since);
        let user = match &self.user {
            Some(user) => Some(meant_user(store, user, "audit --user").await?.to_string()),
            None => None,
        };
        let (client, event, request) = (self.client, self.event, self.request);
        let mut search = AuditSearch { after: 0, since, user, client, event, request, limit: self.limit };
        let form = if self.json { json_line } else { text_line };
        loop {
            let rows = store.oauth.audit().find(&search).await.map_err(crate::oauth::OAuthError::from)?;
            let names = if rows.is_empty() { KeyNames::default() } else { KeyNames::of(store).await? };
            for row in &rows {
                // the reader is gone
                if process.output.try_print(&form(row, &names)).is_err() {
                    return Ok(());
                }
                search.after = row.sequence;
            }
            if !self.follow {
                if rows.is_empty() {
                    process.output.remark("No such events.");
                }
                return Ok(());
            }
            search.limit = BATCH;
            sleep(FOLLOW_EVERY).await;
        }
    }
}

/// An event as a line of JSON.
fn json_line(StoredAuditRow { sequence, row }: &StoredAuditRow, names: &KeyNames) -> String {
    let AuditRow { at, event, request, count, .. } = row;
    let mut document = Map::new();
    document.insert("sequence".to_owned(), json!(sequence));
    document.insert("at".to_owned(), json!(at.to_string()));
    document.insert("event".to_owned(), json!(event));
    let fields = fields(row);
    let key_name = ["key", "user"].iter().find_map(|name| key_name(name, fields.get(*name)?, names));
    document.extend(fields);
    if let Some(name) = key_name {
        document.insert("key_name".to_owned(), json!(name));
    }
    if let Some(request) = request {
        document.insert("request".to_owned(), json!(request));
    }
    if *count != 1 {
        document.insert("events".to_owned(), json!(count));
    }
    Value::Object(document).to_string()
}

/// An event as a line for people.
fn text_line(StoredAuditRow { row, .. }: &StoredAuditRow, names: &KeyNames) -> String {
    let AuditRow { at, event, request, count, .. } = row;
    let mut line = format!("{at}  {event}");
    if *count != 1 {
        let _ = write!(line, " ({count} events)");
    }
    for (name, value) in &fields(row) {
        let called = key_name(name, value, names).map(|name| format!(" ({name})")).unwrap_or_default();
        let value = value.as_str().unwrap_or_default().to_owned() + &called;
        let value = if value.contains(' ') { format!("{value:?}") } else { value };
        let _ = write!(line, "  {name}={value}");
    }
    if let Some(request) = request {
        let _ = write!(line, "  request={request}");
    }
    printable(&line)
}

/// The name of the key whose id is in a field. The field `user` may also name a key: one without a user name.
fn key_name<'a>(field: &str, value: &Value, names: &'a KeyNames) -> Option<&'a str> {
    match (field, value.as_str()?) {
        ("key", key) => names.of_key(&KeyId::new(key)),
        ("user", user) => names.get(&UserId::new(user)),
        _ => None,
    }
}

fn fields(row: &AuditRow) -> Map<String, Value> {
    let mut fields: Map<String, Value> = serde_json::from_str(&row.fields).unwrap_or_default();
    // rows of earlier versions have the server under this name
    if let Some(server) = fields.remove("backend") {
        fields.insert("server".to_owned(), server);
    }
    fields
}
