//! Device authorization (RFC 8628; `OA-146`): a program without a browser shows a code, and its user enters the code on
//! another machine.
//!
//! Anyone may request codes, so requests are limited by network, and the number of waiting devices is limited. Only
//! logged-in people may try codes, and only a few.

use std::{net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    ClientOrigin,
    server_choice::{ChoiceRefusal, OfferedServers, ServerChoice},
};
use crate::{
    audit::{GrantEvent, KeyEvent},
    model::{Client, ClientId, ClientIp, ConsentRule, Endpoint, Grant, GrantId, GrantType, Scopes, TokenDelivery},
    oauth::{
        accounts::api_keys::{KeyHolder, Keys},
        clients::{
            client_auth::{ClientAuthenticator, ClientRequest, SoughtClient},
            client_lookup::{self, ClientRefusal},
            registration::Registrations,
        },
        credentials::usage::UsageRecorder,
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError},
        rate_limits::RateLimit,
        secrets::{opaque, pepper::Pepper},
    },
    storage::{DeviceApproval, DeviceRow, NewDeviceRow, StorageError},
    support::{Digest, Secret, Timestamp},
};

/// Time between two polls, in seconds.
pub(in crate::oauth) const INTERVAL: u64 = 5;
/// Life of a code.
const LIFETIME: Duration = Duration::from_mins(10);
/// Characters of codes for people: no vowels, so no words, and no look-alikes (RFC 8628 6.1).
const ALPHABET: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LENGTH: usize = 8;
/// Maximum length of `scope`, in bytes, because it is stored for a stranger.
const LONGEST_SCOPE: usize = 2 * 1024;

/// A code entered by a person, in upper case and without separators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCode(String);

/// A waiting device, as shown to the logged-in person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDevice {
    /// The code it shows.
    pub code: UserCode,
    pub client: Client,
    /// Source of its name.
    pub origin: ClientOrigin,
    /// Endpoint that its tokens open.
    pub endpoint: Endpoint,
    /// The absolute URL of that endpoint.
    pub resource: String,
    /// Scopes that the person would grant.
    pub scopes: Scopes,
    /// Maximum life of the grant.
    pub grant_lifetime: Duration,
}

/// The stored decision about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceVerdict {
    /// Name of the client.
    pub client_name: String,
    /// True if it was approved.
    pub is_approved: bool,
    /// Time of the decision.
    pub at: Timestamp,
}

/// Why a code cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceRefusal {
    /// The code is wrong, expired, or already decided.
    #[error("no device waits with this code")]
    Unknown,
    /// The device requests something that does not exist, or that the key does not open.
    #[error("the API key does not open what the device asks for")]
    NotAllowed,
    /// Too many wrong codes.
    #[error("too many wrong codes; try again in {} s", .0.as_secs())]
    Limited(Duration),
    /// The device waits on, and the person has to choose again.
    #[error(transparent)]
    Unchosen(#[from] ChoiceRefusal),
    #[error(transparent)]
    Unavailable(#[from] OAuthError),
}

pub struct DeviceAuthorizations {
    deps: OAuthDeps,
    keys: Arc<Keys>,
    clients: Arc<ClientAuthenticator>,
    registrations: Arc<Registrations>,
    uses: Arc<UsageRecorder>,
    pepper: Arc<Pepper>,
    requests: RateLimit,
    /// Wrong codes, by network and by key.
    wrong_from: RateLimit,
    wrong_of: RateLimit,
}

// === impl DeviceAuthorizations ===

impl DeviceAuthorizations {
    /// One network may request 20 codes at once, then one a minute.
    pub(in crate::oauth) fn new(
        keys: Arc<Keys>,
        clients: Arc<ClientAuthenticator>,
        registrations: Arc<Registrations>,
        uses: Arc<UsageRecorder>,
    ) -> Self {
        let deps = keys.deps.clone();
        let wrong = |name| deps.limits.limit(name, 10, Duration::from_secs(90));
        Self {
            requests: deps.limits.limit("device codes", 20, Duration::from_mins(1)),
            wrong_from: wrong("wrong device codes of networks"),
            wrong_of: wrong("wrong device codes of keys"),
            deps,
            pepper: Arc::clone(&keys.pepper),
            keys,
            clients,
            registrations,
            uses,
        }
    }

    /// Answers a device authorization request (RFC 8628 3.1).
    pub(in crate::oauth) async fn begin(&self, request: ClientRequest<'_>) -> Result<Value, ErrorResponse> {
        let client = self.clients.authenticate(request, SoughtClient::Device).await?;
        let ClientRequest { form, from, .. } = request;
        if !client.grant_types.contains(&GrantType::DeviceCode) {
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let settings = &self.deps.settings;
        let named = settings.endpoint_for_strangers(form.all("resource")).map_err(|_| ErrorResponse::InvalidTarget)?;
        let asked = form.get("scope")?.or(client.scope.as_deref()).unwrap_or_default();
        let asked = Some(asked).filter(|asked| asked.len() <= LONGEST_SCOPE).map(Scopes::parse);
        let Some(Ok(scopes)) = asked else { return Err(ErrorResponse::InvalidScope) };
        let now = self.deps.now();
        self.requests.take(from.network(), now).map_err(ErrorResponse::Limited)?;
        let (device, code) = (Secret::new(self.deps.random.token()), self.mint());
        let row = NewDeviceRow {
            device: device.digest(),
            user_code: self.mac(&code),
            client: client.id.clone(),
            document: client.registrant.document(),
            endpoint: named,
            scopes,
            expires: now + LIFETIME,
        };
        if !self.deps.storage.device_authorizations().add(&row, now).await? {
            tracing::warn!(client = %client.id, "too many devices wait for a person; another one is refused");
            return Err(ErrorResponse::Limited(Duration::from_mins(1)));
        }
        let page = format!("{}/device", settings.issuer);
        Ok(json!({
            "device_code": device.expose(),
            "user_code": code.to_string(),
            "verification_uri": page,
            "verification_uri_complete": format!("{page}?user_code={code}"),
            "expires_in": LIFETIME.as_secs(),
            "interval": INTERVAL,
        }))
    }

    /// The device that shows a code, for the person at it. A wrong code counts against the network and the key.
    pub async fn pending(
        &self,
        code: &UserCode,
        holder: &KeyHolder,
        from: IpAddr,
    ) -> Result<PendingDevice, DeviceRefusal> {
        let row = self.find(code, holder, from).await?;
        let settings = &self.deps.settings;
        let client = client_lookup::of_waiting(&self.deps, &row.client).await.map_err(|refusal| match refusal {
            ClientRefusal::Failed(error) => DeviceRefusal::Unavailable(error),
            _ => DeviceRefusal::Unknown,
        })?;
        // the document is now another one than when the device began (OA-52)
        if client.registrant.document() != row.document {
            return Err(DeviceRefusal::Unknown);
        }
        let (endpoint, scopes) =
            settings.resolve(row.endpoint.as_ref(), &row.scopes).ok_or(DeviceRefusal::NotAllowed)?;
        if !settings.backends.verdict(holder.subject(), &endpoint.target, None).is_open() {
            return Err(DeviceRefusal::NotAllowed);
        }
        Ok(PendingDevice {
            code: code.clone(),
            origin: ClientOrigin::of(&client),
            client,
            resource: settings.resource(&endpoint),
            endpoint,
            scopes: holder.subject().grantable(&scopes),
            grant_lifetime: settings.policy.get().refresh_absolute,
        })
    }

    /// The decision about the device that was made with the form of this token; `None` if there is none.
    pub async fn decided(&self, code: &UserCode, form: &Secret) -> Result<Option<DeviceVerdict>, DeviceRefusal> {
        let devices = self.deps.storage.device_authorizations();
        let decided = devices.decided_by(&self.mac(code), &form.digest(), self.deps.now()).await;
        let Some(decided) = decided.map_err(OAuthError::from)? else { return Ok(None) };
        let client_name = self.name_of(&decided.client).await;
        Ok(Some(DeviceVerdict { client_name, is_approved: decided.is_approved, at: decided.at }))
    }

    /// Approves what was chosen with the form of this token: the device gets its tokens at its next poll. Works once.
    pub async fn approve(
        &self,
        code: &UserCode,
        form: &Secret,
        holder: &KeyHolder,
        choice: ServerChoice<'_>,
        from: IpAddr,
    ) -> Result<DeviceVerdict, DeviceRefusal> {
        let pending = self.pending(code, holder, from).await?;
        let target = &pending.endpoint.target;
        let offered = OfferedServers::new(&self.deps.settings, holder, target, &pending.scopes);
        let scopes = offered.granted(&pending.scopes, choice)?;
        if !self.keys.is_live(&holder.key).await? {
            return Err(DeviceRefusal::NotAllowed);
        }
        let now = self.deps.now();
        let end = now + self.deps.settings.policy.get().refresh_absolute;
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*self.deps.random, 22)),
            user: holder.user.clone(),
            key: holder.key.clone(),
            client: pending.client.id.clone(),
            endpoint: pending.endpoint,
            scopes,
            delivery: TokenDelivery::Device,
            created: now,
            expires: self.keys.expires(&holder.key).await?.map_or(end, |key_end| key_end.min(end)),
            last_used: None,
            revoked: None,
        };
        // the eviction of the least recently used grant depends on these times (OA-135)
        self.uses.write().await?;
        client_lookup::keep(&self.deps, &pending.client).await?;
        let devices = self.deps.storage.device_authorizations();
        let approved = match devices.approve(&self.mac(code), &form.digest(), &grant, now).await {
            Err(StorageError::Ended) => return Err(DeviceRefusal::NotAllowed),
            approved => approved.map_err(OAuthError::from)?,
        };
        let DeviceApproval::Approved { consented_first } = approved else {
            // a concurrent submission of the same form
            return self.decided(code, form).await?.ok_or(DeviceRefusal::Unknown);
        };
        if let Some(network) = consented_first {
            // OA-42: registrations that led to a consent do not count
            self.registrations.give_back(&network, now);
        }
        self.deps.audit.record(GrantEvent::Approved {
            user: grant.user,
            client: grant.client,
            grant: grant.id,
            endpoint: grant.endpoint,
            scopes: grant.scopes,
            // a code is always entered on a page
            consent: ConsentRule::Asked,
        });
        Ok(DeviceVerdict { client_name: pending.client.name, is_approved: true, at: now })
    }

    /// Denies the device, with the form of this token: it gets `access_denied` at its next poll. Works once.
    pub async fn deny(
        &self,
        code: &UserCode,
        form: &Secret,
        holder: &KeyHolder,
        from: IpAddr,
    ) -> Result<DeviceVerdict, DeviceRefusal> {
        let row = self.find(code, holder, from).await?;
        let at = self.deps.now();
        let denied = self.deps.storage.device_authorizations().deny(&self.mac(code), &form.digest(), at).await;
        if !denied.map_err(OAuthError::from)? {
            return self.decided(code, form).await?.ok_or(DeviceRefusal::Unknown);
        }
        // a refusal stands, even if the client has changed since
        let client_name = self.name_of(&row.client).await;
        self.deps.audit.record(GrantEvent::Denied { user: Some(holder.user.clone()), client: row.client.clone() });
        Ok(DeviceVerdict { client_name, is_approved: false, at })
    }

    /// The name of a client, or its id if it was deleted.
    async fn name_of(&self, client: &ClientId) -> String {
        let found = client_lookup::of_waiting(&self.deps, client).await;
        found.map_or_else(|_| client.to_string(), |client| client.name)
    }

    /// Finds a device. The try is charged before the look-up, and refunded if the code is right.
    async fn find(&self, code: &UserCode, holder: &KeyHolder, from: IpAddr) -> Result<DeviceRow, DeviceRefusal> {
        let (now, network) = (self.deps.now(), ClientIp(from).network());
        self.wrong_of.take(&holder.key, now).map_err(DeviceRefusal::Limited)?;
        if let Err(wait) = self.wrong_from.take(network, now) {
            self.wrong_of.give_back(&holder.key, now);
            return Err(DeviceRefusal::Limited(wait));
        }
        let found = self.deps.storage.device_authorizations().find_by_user_code(&self.mac(code), now).await;
        let Some(row) = found.map_err(OAuthError::from)? else {
            self.deps.audit.record(KeyEvent::DeviceCodeRefused {
                key: holder.key.clone(),
                user: holder.user.clone(),
                from,
            });
            return Err(DeviceRefusal::Unknown);
        };
        self.wrong_of.give_back(&holder.key, now);
        self.wrong_from.give_back(network, now);
        Ok(row)
    }

    fn mint(&self) -> UserCode {
        let mut text = String::with_capacity(CODE_LENGTH);
        while text.len() < CODE_LENGTH {
            // 240 is the largest multiple of 20 in a byte; larger values would bias the result
            let fair = self.deps.random.bytes::<32>().into_iter().filter(|byte| *byte < 240);
            let chars = fair.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
            text.extend(chars.take(CODE_LENGTH - text.len()));
        }
        UserCode(text)
    }

    fn mac(&self, code: &UserCode) -> Digest {
        self.pepper.mac(&format!("device code {}", code.0))
    }
}

// === impl UserCode ===

impl UserCode {
    /// Reads the code that a person entered, in any case, with or without separators. `None` if it cannot be a code.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > 4 * CODE_LENGTH {
            return None;
        }
        let letters = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '-' | '.' | '_'));
        let code: String = letters.map(|c| c.to_ascii_uppercase()).collect();
        let fits = code.len() == CODE_LENGTH && code.bytes().all(|byte| ALPHABET.contains(&byte));
        fits.then_some(Self(code))
    }
}

impl std::fmt::Display for UserCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (left, right) = self.0.split_at(CODE_LENGTH / 2);
        write!(f, "{left}-{right}")
    }
}
