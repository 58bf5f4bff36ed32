//! `lockkeeper clients create`: registers a confidential client.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::print;
use crate::{
    cli::{
        arguments::values,
        people::rights_args::RightsArgs,
        store::{AdminStore, IfMissing},
        terminal::{
            documents::{self, Became, FormatArgs},
            failure::CommandFailure,
            process::ProcessContext,
        },
    },
    config::text_of,
    model::{ClientAuth, ConsentRule, IdentityAssertions},
    oauth::{ClientKeySet, NewClientKeys, OperatorClient, RedirectTarget, ServiceAccount, redirect_uri::RedirectUri},
    support::Secret,
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper clients create nightly --jwks nightly.jwks.json --server git
                                  signs its token requests with its own key
  lockkeeper clients create report --server docs:read --expires 90d
                                  gets a secret, which is shown once
  lockkeeper clients create portal --redirect-uri https://portal.example.com/cb
                                  an app with a server, which people log in with
  lockkeeper clients create chat --identity-assertions
                                  an app that login providers let in for people

A client without --redirect-uri has a service account: it asks for tokens with
the grant type client_credentials, and may do what --server and --group name,
from where --network says.";

/// Maximum size of a file with keys, in bytes.
const LARGEST_FILE: u64 = 64 * 1024;

/// `clients create`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct CreateClientArgs {
    /// Name of the client, which people see
    #[arg(value_parser = values::name)]
    name: String,
    /// File with the public keys of the client (a JWK Set): it authenticates with signed assertions. Default: a secret
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Accepts the secret only in the form of token requests. Default: there or in the Authorization header
    #[arg(long, conflicts_with = "jwks")]
    post: bool,
    /// Accepts the secret only in the Authorization header of token requests
    #[arg(long, conflicts_with_all = ["jwks", "post"])]
    basic: bool,
    /// Redirect URI, exactly as the client sends it; may be given several times
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// Skips the consent page for people who are logged in, unless the client asks for it, or for mcp:admin
    #[arg(long, requires = "redirect_uris")]
    skip_consent: bool,
    /// Gives a client with redirect URIs a service account too
    #[arg(long)]
    service: bool,
    /// Lets it bring identity assertions of a login provider (ID-JAG) in place of people's logins
    #[arg(long)]
    identity_assertions: bool,
    #[command(flatten)]
    service_rights: RightsArgs,
    #[command(flatten)]
    form: FormatArgs,
}

impl CreateClientArgs {
    pub(super) async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        self.service_rights.check(process).await?;
        let keys = match &self.jwks {
            Some(path) => NewClientKeys::Inline(key_set(path)?),
            None if self.post => NewClientKeys::Post,
            None if self.basic => NewClientKeys::Basic,
            None => NewClientKeys::Secret,
        };
        let store = AdminStore::open(process, IfMissing::Refuse).await?;
        let created = match self.client(keys, &store.oauth.settings().policy.get().redirect_schemes) {
            Ok(new) => store.oauth.clients().create(new).await.map_err(CommandFailure::from),
            Err(failure) => Err(failure),
        };
        store.close().await;
        let (client, secret, account) = created?;
        if self.form.json {
            let mut document = print::document(&client);
            document["secret"] = json!(secret.as_ref().map(Secret::expose));
            document["service_account"] = json!(account.as_ref().map(|key| &key.id));
            process.output.json(&documents::change(Became::Created, document));
            return Ok(());
        }
        process.output.print(&format!("client_id: {}", client.id));
        if let Some(secret) = &secret {
            process.output.print(&format!("client_secret: {}", secret.expose()));
            process.output.remark("The secret is not shown again.");
        }
        let method = match &client.auth {
            ClientAuth::AnySecret(_) => "client_secret_basic or client_secret_post",
            auth => auth.name(),
        };
        process.output.remark(&format!("It authenticates with {method}."));
        if let Some(account) = account {
            process.output.remark(&format!(
                "Its service account is {}: end it with `lockkeeper keys revoke {}`.",
                account.id, account.id
            ));
        }
        process.output.remark(&format!("Revoke the client: lockkeeper clients revoke {}", client.id));
        Ok(())
    }

    /// The client to register; `schemes` are the URI schemes that the operator allows in redirect URIs.
    fn client(&self, keys: NewClientKeys, schemes: &[String]) -> Result<OperatorClient, CommandFailure> {
        let has_service = self.service || (self.redirect_uris.is_empty() && !self.identity_assertions);
        if !has_service && !self.service_rights.is_empty() {
            let what = "--server, --group, --network and --expires are for a service account";
            return Err(CommandFailure::usage(what)
                .advise("add --service, or leave out --redirect-uri and --identity-assertions"));
        }
        let parse = |uri: &String| {
            let parsed = RedirectUri::parse(uri, schemes);
            parsed.map_err(|error| CommandFailure::usage(format!("--redirect-uri {uri}: {error}")))
        };
        let redirect_uris: Vec<RedirectUri> = self.redirect_uris.iter().map(parse).collect::<Result<_, _>>()?;
        if self.skip_consent && !redirect_uris.iter().all(is_web_site) {
            let what = "--skip-consent is for a client with a web site: another program could pretend to be the app";
            return Err(
                CommandFailure::usage(what).advise("give only https redirect URIs, or leave out --skip-consent")
            );
        }
        let service = has_service.then(|| ServiceAccount {
            rights: self.service_rights.rights(),
            expires: self.service_rights.expires(),
            networks: self.service_rights.networks(),
        });
        let consent = if self.skip_consent { ConsentRule::Skipped } else { ConsentRule::Asked };
        let identity_assertions =
            if self.identity_assertions { IdentityAssertions::Accepted } else { IdentityAssertions::Refused };
        Ok(OperatorClient { name: self.name.clone(), keys, redirect_uris, consent, service, identity_assertions })
    }
}

fn is_web_site(uri: &RedirectUri) -> bool {
    matches!(uri.target(), RedirectTarget::Web(_))
}

/// Reads and checks a file with public keys.
fn key_set(path: &PathBuf) -> Result<String, CommandFailure> {
    let unread = |error| CommandFailure::failed(format!("{} cannot be read", path.display())).why(error);
    let failed =
        |what: String| CommandFailure::usage(format!("the keys in {} cannot be used", path.display())).why(what);
    let length = std::fs::metadata(path).map_err(unread)?.len();
    if length > LARGEST_FILE {
        return Err(failed("the file is larger than 64 KiB".to_owned()));
    }
    let text = text_of(path).map_err(unread)?;
    let set: Value = serde_json::from_str(&text).map_err(|_| failed("it is not JSON".to_owned()))?;
    ClientKeySet::parse(&set).map_err(|problem| failed(problem.to_string()))?;
    Ok(set.to_string())
}
