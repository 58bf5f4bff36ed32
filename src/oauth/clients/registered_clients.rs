//! Administration of clients, for the command line, and clients registered by the operator.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::redirect_uri::RedirectUri;
use crate::{
    audit::ClientEvent,
    model::{
        AllowedNetworks, ApiKey, Client, ClientAuth, ClientId, ClientKeys, ConsentRule, GrantType, IdentityAssertions,
        KeyAccount, NewAccount, Registrant, Rights,
    },
    oauth::{
        accounts::api_keys::Keys, credentials::revocation::Revocations, dependencies::OAuthDeps, error::OAuthError,
        secrets::opaque,
    },
    storage::IdleSince,
    support::{Secret, Timestamp, printable_name},
};

/// Lifetime of a client without a consent, from its last registration (`OA-43`).
const UNUSED_LIFETIME: Duration = Duration::from_hours(24);
/// Lifetime of a client without a live grant. After that, a client without a consent is remembered for the same time.
const IDLE_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// A client registered by the operator, always confidential.
#[derive(Debug, Clone)]
pub struct OperatorClient {
    /// Name: 1 to 100 characters.
    pub name: String,
    pub keys: NewClientKeys,
    /// Redirect URIs, if people log in with it.
    pub redirect_uris: Vec<RedirectUri>,
    /// Whether to ask people about it.
    pub consent: ConsentRule,
    /// Its service account, if it has one.
    pub service: Option<ServiceAccount>,
    /// Whether it may bring identity assertions.
    pub identity_assertions: IdentityAssertions,
}

/// A service account to create.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    pub rights: Rights,
    pub expires: Option<Timestamp>,
    /// Networks from which the client may use it.
    pub networks: AllowedNetworks,
}

/// Authentication of an operator's client.
#[derive(Debug, Clone)]
pub enum NewClientKeys {
    /// By a new secret, in the `Authorization` header or in the form.
    Secret,
    /// By a new secret in the `Authorization` header.
    Basic,
    /// By a new secret in the form.
    Post,
    /// By assertions, with this checked JWK Set.
    Inline(String),
}

pub struct RegisteredClients {
    pub(in crate::oauth) keys: Arc<Keys>,
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) revocations: Arc<Revocations>,
}

impl RegisteredClients {
    /// Registers a client of the operator, with its service account. The secret is returned only here.
    pub async fn create(&self, new: OperatorClient) -> Result<(Client, Option<Secret>, Option<ApiKey>), OAuthError> {
        let name = printable_name(new.name.trim(), 100);
        if name.is_empty() {
            return Err(OAuthError::KeyName);
        }
        let secret = Secret::new(self.deps.random.token());
        let (auth, secret) = match new.keys {
            NewClientKeys::Secret => (ClientAuth::AnySecret(secret.digest()), Some(secret)),
            NewClientKeys::Basic => (ClientAuth::Basic(secret.digest()), Some(secret)),
            NewClientKeys::Post => (ClientAuth::Post(secret.digest()), Some(secret)),
            NewClientKeys::Inline(set) => (ClientAuth::PrivateKeyJwt(ClientKeys::Inline(set)), None),
        };
        let mut grant_types = Vec::new();
        if !new.redirect_uris.is_empty() {
            grant_types.extend([GrantType::AuthorizationCode, GrantType::RefreshToken]);
        }
        grant_types.extend(new.service.is_some().then_some(GrantType::ClientCredentials));
        grant_types.extend((new.identity_assertions == IdentityAssertions::Accepted).then_some(GrantType::JwtBearer));
        let redirect_uris: Vec<String> = new.redirect_uris.iter().map(|uri| uri.as_str().to_owned()).collect();
        let metadata = json!({
            "client_name": name, "redirect_uris": redirect_uris, "grant_types": grant_types,
            "token_endpoint_auth_method": auth.name(),
        });
        let client = Client {
            id: ClientId::new(opaque::base62(&*self.deps.random, opaque::CLIENT_ID_LENGTH)),
            name: name.clone(),
            redirect_uris,
            auth,
            registrant: Registrant::Operator(new.consent),
            grant_types,
            scope: None,
            metadata: metadata.to_string(),
            created: self.deps.now(),
        };
        if let Some(service) = &new.service {
            self.keys.may_be_bound(&service.networks).await?;
        }
        self.deps.storage.clients().add_by_operator(&client).await?;
        self.deps.audit.record(ClientEvent::Created(client.id.clone()));
        let account = match new.service {
            Some(ServiceAccount { rights, expires, networks }) => {
                let account = KeyAccount::Service { client: client.id.clone() };
                let new = NewAccount { account, name, user: None, rights, expires, networks };
                Some(self.keys.add_account(new).await?)
            }
            None => None,
        };
        Ok((client, secret, account))
    }

    /// Every registered client, newest first.
    pub async fn list(&self) -> Result<Vec<Client>, OAuthError> {
        Ok(self.deps.storage.clients().list().await?)
    }

    /// Expires clients that are not used (`OA-43`).
    pub(in crate::oauth) async fn expire(&self) -> Result<(), OAuthError> {
        let now = self.deps.now();
        let since =
            IdleSince { unused: now - UNUSED_LIFETIME, idle: now - IDLE_LIFETIME, forgotten: now - IDLE_LIFETIME };
        Ok(self.deps.storage.for_purges().client_expiry().expire(&since, now).await?)
    }

    /// Deletes clients that have expired; they have to register again. Returns their number.
    pub async fn prune(&self) -> Result<u64, OAuthError> {
        self.expire().await?;
        Ok(self.deps.storage.client_expiry().prune().await?)
    }

    pub async fn find(&self, client: &ClientId) -> Result<Option<Client>, OAuthError> {
        Ok(self.deps.storage.clients().lookup(client).await?)
    }

    /// Revoked clients, last revoked first.
    pub async fn list_revoked(&self) -> Result<Vec<Client>, OAuthError> {
        Ok(self.deps.storage.clients().list_revoked().await?)
    }

    /// Restores a revoked client; its grants stay revoked. Returns false if no revoked client has this id.
    pub async fn restore(&self, client: &ClientId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.clients().restore(client, self.deps.now()).await?;
        if done {
            self.deps.audit.record(ClientEvent::Restored(client.clone()));
        }
        Ok(done)
    }

    /// Revokes a client with its grants. An identical registration is refused until the client is restored. Returns
    /// false if there is no such client.
    pub async fn revoke(&self, client: &ClientId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.clients().revoke(client, self.deps.now()).await?;
        if done {
            self.deps.audit.record(ClientEvent::Revoked(client.clone()));
        }
        self.revocations.sync().await?;
        Ok(done)
    }
}
