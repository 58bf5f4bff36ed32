//! `lockkeeper keys set`: changes a key in place.

use std::collections::BTreeMap;

use super::print;
use crate::{
    cli::{
        arguments::{
            self,
            values::{self, Lifetime},
        },
        people::{known_backends, lookup::meant_key, rights_args::OpenedArgs},
        store::{self, AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    model::{Access, AllowedBackends, ApiKey, BackendId, KeyAccount, KeyChange, KeyEnd, KeyId, KeyKind},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper keys set 7fGh29xKq1 --server docs --server git:read
                                              these servers instead of others
  lockkeeper keys set 7fGh29xKq1 --all-servers
  lockkeeper keys set 7fGh29xKq1 --no-admin   servers and expiry stay
  lockkeeper keys set 7fGh29xKq1 --expires 90d

An option replaces that right; rights that no option names stay. Anything beyond
the new rights ends within a second, running calls included. Apps that may use
every server that the key opens can use added ones without a new login.";

/// `keys set`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "what", required = true, multiple = true, args = ["servers", "groups", "all_servers", "admin", "no_admin", "expires"])]
pub struct SetKeyArgs {
    /// The key: its id from `keys list`, or its name if no other has it
    #[arg(value_name = "KEY")]
    id: String,
    #[command(flatten)]
    named: OpenedArgs,
    /// Opens every server
    #[arg(long, conflicts_with_all = ["servers", "groups"])]
    all_servers: bool,
    /// Allows status and administration of the gateway
    #[arg(long)]
    admin: bool,
    /// Ends administration, with the browser sessions of the key and the apps that may administer
    #[arg(long, conflicts_with = "admin")]
    no_admin: bool,
    /// Time until it expires, from now on, or `never`
    #[arg(long, value_name = "DURATION", value_parser = values::end)]
    expires: Option<Lifetime>,
    #[command(flatten)]
    form: FormatArgs,
}

impl SetKeyArgs {
    pub(super) async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.named.check(process).await?;
        let groups = if self.named.is_empty() { None } else { known_backends::groups(process).await };
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let changed = match meant_key(&store, &self.id).await {
            Ok(id) => self.change(&store, id.clone(), groups, process).await.map(|changed| (id, changed)),
            Err(failure) => Err(failure),
        };
        let keys = store.oauth.keys().list().await;
        store.close().await;
        let ((id, changed), keys) = (changed?, keys?);
        let is_shown = |key: &ApiKey| if changed.is_empty() { key.id == id } else { changed.contains(&key.id) };
        let shown: Vec<ApiKey> = keys.into_iter().filter(is_shown).collect();
        if self.form.json {
            let became = if changed.is_empty() { Became::Unchanged } else { Became::Changed };
            let keys = documents::list("keys", shown.iter().map(print::document).collect());
            process.output.json(&documents::change(became, keys));
            return Ok(());
        }
        let text = print::table(&shown, store::now(), process.output.out);
        process.output.print(&text);
        process.output.remark(if changed.is_empty() {
            "Nothing changed: the key has these rights already."
        } else {
            "Rights changed. Anything beyond them ends within a second; connected apps can use added servers at once."
        });
        Ok(())
    }

    async fn change(
        &self,
        store: &AdminStore,
        id: KeyId,
        groups: Option<Vec<String>>,
        process: &ProcessContext,
    ) -> Result<Vec<KeyId>, CommandFailure> {
        let found = store.oauth.keys().find(&id).await?.filter(|key| key.revoked.is_none());
        let Some(key) = found else {
            return Err(CommandFailure::failed(format!("there is no live key {id}"))
                .advise("`lockkeeper keys list` shows the ids"));
        };
        if let KeyKind::Account(KeyAccount::Provider { issuer, .. }) = &key.kind {
            return Err(of_provider(&key, issuer, process));
        }
        let change = KeyChange {
            backends: self.backends(&key, groups.as_deref())?,
            admin: (self.admin || self.no_admin).then_some(self.admin),
            expires: self.expires.map(|expires| match expires {
                Lifetime::Unlimited => KeyEnd::Never,
                Lifetime::For(life) => KeyEnd::At(store::now() + life),
            }),
        };
        let changed = store.oauth.keys().change(&id, &change).await?;
        Ok(changed.into_iter().map(|changed| changed.key).collect())
    }

    /// The new rights to servers and groups; `None` if they stay. If options name only servers or only groups, the
    /// rights of the other kind stay. Both kinds are in one map, so this needs to know which names are groups.
    fn backends(&self, key: &ApiKey, groups: Option<&[String]>) -> Result<Option<AllowedBackends>, CommandFailure> {
        if self.all_servers {
            return Ok(Some(AllowedBackends::All));
        }
        if self.named.is_empty() {
            return Ok(None);
        }
        let mut allowed = match &key.rights.backends {
            AllowedBackends::All => BTreeMap::new(),
            AllowedBackends::Only(present) => self.kept(present, groups)?,
        };
        for (name, access) in self.named.servers().iter().chain(self.named.groups()) {
            allow(&mut allowed, name, *access);
        }
        Ok(Some(AllowedBackends::Only(allowed)))
    }

    /// The present rights to the kind that no option names: servers or groups.
    fn kept(
        &self,
        present: &BTreeMap<String, Access>,
        groups: Option<&[String]>,
    ) -> Result<BTreeMap<String, Access>, CommandFailure> {
        let (servers, wanted_groups) = (!self.named.servers().is_empty(), !self.named.groups().is_empty());
        if servers && wanted_groups {
            return Ok(BTreeMap::new());
        }
        let Some(groups) = groups else {
            let advice = "start the gateway, give its file with `--config FILE`, or name servers and groups together";
            let why = "neither a running gateway nor a configuration tells which of its names are groups";
            return Err(CommandFailure::failed("the key cannot be changed").why(why).advise(advice));
        };
        let stays = |name: &String| groups.contains(name) == servers;
        Ok(present.iter().filter(|(name, _)| stays(name)).map(|(name, access)| (name.clone(), *access)).collect())
    }
}

fn allow(allowed: &mut BTreeMap<String, Access>, name: &BackendId, access: Access) {
    let held = allowed.entry(name.to_string()).or_insert(access);
    *held = (*held).max(access);
}

/// The refusal to change an account whose rights are set at each login.
fn of_provider(key: &ApiKey, issuer: &str, process: &ProcessContext) -> CommandFailure {
    let config = arguments::load(&process.options.given(), process).ok();
    let spec = config.as_ref().and_then(|config| config.login.iter().find(|spec| spec.issuer == issuer));
    let table = spec.map_or_else(|| format!("the table of `{issuer}`"), |spec| format!("[login.{}]", spec.name));
    CommandFailure::failed(format!(
        "{} is the account of a person at a login provider: its rights are set at each login",
        key.id
    ))
    .advise(format!("change {table} in the configuration, or `lockkeeper invite --email ADDRESS --login NAME`"))
}
