//! One order: from the account to the certificate (RFC 8555 7). Each result is stored before the next step, so that the
//! order continues after a restart.

use std::{net::IpAddr, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, ExternalAccountKey,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio::time::sleep;
use zeroize::Zeroizing;

use super::{
    acme_http::{AcmeHttp, Silent},
    certificate::ServedCertificate,
    certificates::Certificates,
    schedule::FailureKind,
};
use crate::{
    fetch::OpenClient,
    model::{AcmeChallenge, AuthoritySpec},
    storage::{CertificateHold, CertificateRow, ChallengeRow, Storage, StorageError},
    support::{Clock, Random},
    vault::{Vault, VaultError, VaultOwner, VaultPlace},
};

/// A challenge is answered for this long.
const CHALLENGE_LIFETIME: Duration = Duration::from_hours(1);
/// Other replicas answer a challenge after this time: they look every two seconds.
const REPLICAS_KNOW: Duration = Duration::from_secs(5);
/// Intervals for polling an authority about its progress.
const RETRIES: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(500)).backoff(1.5).timeout(Duration::from_mins(2));

/// Dependencies of orders.
pub struct AuthorityDeps {
    pub spec: AuthoritySpec,
    /// The names, not empty.
    pub names: Vec<String>,
    /// Text that distinguishes the certificate from those of other settings.
    pub place: String,
    pub storage: Storage,
    /// Seals the keys.
    pub vault: Vault,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Requests to the authority.
    pub client: OpenClient,
    /// True if other gateways use the database.
    pub is_shared: bool,
    /// True if the port without TLS is open.
    pub has_plain_port: bool,
    /// The address that the gateway listens on.
    pub listen: IpAddr,
}

/// The outcome of an order.
pub(super) struct Obtained {
    /// PEM, with the certificates up to the authority.
    pub(super) chain: String,
    /// Its key in PEM.
    pub(super) key: Zeroizing<String>,
}

/// Why an order failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderFailure {
    /// The authority refused, or saw something other than expected.
    #[error("{0}")]
    Refused(String),
    /// It has forgotten the account.
    #[error("{0}")]
    NoAccount(String),
    /// It refused one nonce after another, as it may (RFC 8555 6.5).
    #[error("the authority accepts no nonce of its own")]
    Nonces,
    /// It did not answer.
    #[error("the authority does not answer: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A stored secret cannot be read.
    #[error(transparent)]
    Sealed(#[from] VaultError),
}

/// The order of one place, by the process that holds its row.
pub(super) struct OrderWork<'a> {
    pub(super) deps: &'a AuthorityDeps,
    pub(super) http: &'a AcmeHttp,
    pub(super) certificates: &'a Certificates,
    pub(super) hold: CertificateHold<'a>,
    pub(super) row: &'a CertificateRow,
}

/// The place of a sealed text of the gateway.
pub(super) const fn sealed_place<'a>(issuer: &'a str, field: &'a str) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::Gateway, backend: None, issuer, field }
}

/// The account at the authority, if there is one.
pub(super) async fn account(deps: &AuthorityDeps, http: &AcmeHttp) -> Result<Option<Account>, OrderFailure> {
    let directory = &deps.spec.directory;
    let Some(sealed) = deps.storage.certificates().account(directory).await? else { return Ok(None) };
    let stored = deps.vault.open(sealed_place(directory, "acme account"), &sealed).await?;
    let credentials: AccountCredentials =
        serde_json::from_slice(&stored).map_err(|_| OrderFailure::Sealed(VaultError::Form))?;
    Ok(Some(Account::builder_with_http(Box::new(http.clone())).from_credentials(credentials).await?))
}

// === impl OrderWork ===

impl OrderWork<'_> {
    /// Carries the order to its end.
    pub(super) async fn obtain(&self) -> Result<Obtained, OrderFailure> {
        let account = match account(self.deps, self.http).await? {
            Some(account) => account,
            None => self.open_account().await?,
        };
        let (mut order, key) = match self.resume(&account).await? {
            Some(begun) => begun,
            None => self.begin(&account).await?,
        };
        if order.state().status == OrderStatus::Pending {
            let mut tokens = Vec::new();
            let outcome = self.prove(&mut order, &mut tokens).await;
            for token in &tokens {
                self.deps.storage.certificates().delete_challenge(token).await?;
            }
            self.answer_challenges().await?;
            outcome?;
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&self.request(&key)?).await?;
        }
        let chain = order.poll_certificate(&RETRIES).await?;
        Ok(Obtained { chain, key: Zeroizing::new(key.serialize_pem()) })
    }

    async fn open_account(&self) -> Result<Account, OrderFailure> {
        let spec = &self.deps.spec;
        let contact = spec.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.as_deref().into_iter().collect();
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let external = spec.external_account.as_ref().map(|external| {
            let key = Zeroizing::new(URL_SAFE_NO_PAD.decode(external.key.expose()).unwrap_or_default());
            ExternalAccountKey::new(external.id.clone(), &key)
        });
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let (account, credentials) = builder.create(&new, spec.directory.clone(), external.as_ref()).await?;
        let text = Zeroizing::new(serde_json::to_vec(&credentials).map_err(Error::from)?);
        let sealed = self.deps.vault.seal(sealed_place(&spec.directory, "acme account"), &text).await?;
        self.deps.storage.certificates().set_account(&spec.directory, &sealed).await?;
        tracing::info!(directory = spec.directory, "an account at the authority is open");
        Ok(account)
    }

    /// The order begun by an earlier process, with its key.
    async fn resume(&self, account: &Account) -> Result<Option<(Order, KeyPair)>, OrderFailure> {
        let Some((url, sealed)) = &self.row.order else { return Ok(None) };
        let key = self.deps.vault.open(sealed_place(self.hold.place, "order key"), sealed).await?;
        let key = std::str::from_utf8(&key).ok().and_then(|pem| KeyPair::from_pem(pem).ok());
        let Some(key) = key else { return Ok(None) };
        let mut order = match account.order(url.clone()).await.map_err(OrderFailure::from) {
            Ok(order) => order,
            // the authority has forgotten it
            Err(OrderFailure::Refused(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let goes_on = order.state().status != OrderStatus::Invalid;
        if goes_on {
            tracing::info!("going on with the order that was begun before");
        }
        Ok(goes_on.then_some((order, key)))
    }

    async fn begin(&self, account: &Account) -> Result<(Order, KeyPair), OrderFailure> {
        let names: Vec<Identifier> = self.deps.names.iter().cloned().map(Identifier::Dns).collect();
        let order = match self.replaced() {
            None => account.new_order(&NewOrder::new(&names)).await?,
            Some(replaced) => match account.new_order(&NewOrder::new(&names).replaces(replaced)).await {
                Ok(order) => order,
                Err(error) => match OrderFailure::from(error) {
                    // it may not support replacements, or not know this one
                    OrderFailure::Refused(_) => account.new_order(&NewOrder::new(&names)).await?,
                    failure => return Err(failure),
                },
            },
        };
        let key = KeyPair::generate().map_err(|error| unusable(&error))?;
        let pem = Zeroizing::new(key.serialize_pem());
        let sealed = self.deps.vault.seal(sealed_place(self.hold.place, "order key"), pem.as_bytes()).await?;
        self.deps.storage.certificates().set_order(self.hold, Some((order.url(), &sealed))).await?;
        Ok((order, key))
    }

    /// The certificate that this one replaces (RFC 9773 5).
    fn replaced(&self) -> Option<CertificateIdentifier<'static>> {
        let served: Arc<ServedCertificate> = self.certificates.served()?;
        let id = CertificateIdentifier::try_from(served.key.cert.first()?).ok()?;
        Some(id.into_owned())
    }

    /// Proves that the names are the gateway's; notes the tokens of answered challenges.
    async fn prove(&self, order: &mut Order, tokens: &mut Vec<String>) -> Result<(), OrderFailure> {
        let kinds = self.kinds();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = authorization.identifier().to_string();
            let offered = |kind: &&ChallengeType| authorization.challenges.iter().any(|one| one.r#type == **kind);
            let Some(kind) = kinds.iter().find(offered).cloned() else {
                let why = format!("the authority offers for {name} none of the challenges that can be answered here");
                return Err(OrderFailure::Refused(format!("{why}: see `challenges` and `http_listen` in [tls]")));
            };
            let Some(mut challenge) = authorization.challenge(kind) else { continue };
            let key_authorization = challenge.key_authorization().as_str().to_owned();
            let row = ChallengeRow { token: challenge.token.clone(), name: name.clone(), key_authorization };
            tokens.push(row.token.clone());
            let now = self.deps.clock.now();
            self.deps.storage.certificates().add_challenge(&row, now, now + CHALLENGE_LIFETIME).await?;
            self.answer_challenges().await?;
            if self.deps.is_shared {
                sleep(REPLICAS_KNOW).await;
            }
            challenge.set_ready().await.map_err(|error| OrderFailure::from(error).about(&name))?;
        }
        match order.poll_ready(&RETRIES).await {
            Ok(OrderStatus::Invalid) => Err(seen(order).await),
            Ok(_) => Ok(()),
            Err(error) => match OrderFailure::from(error) {
                OrderFailure::Refused(_) => Err(seen(order).await),
                failure => Err(failure),
            },
        }
    }

    /// Answers the stored challenges from this process too.
    async fn answer_challenges(&self) -> Result<(), StorageError> {
        let rows = self.deps.storage.certificates().challenges(self.deps.clock.now()).await?;
        self.certificates.challenges.replace(rows);
        Ok(())
    }

    /// The challenges, in the order this attempt tries them.
    fn kinds(&self) -> Vec<ChallengeType> {
        let usable = self.deps.spec.challenges.iter().filter(|kind| match kind {
            AcmeChallenge::Http01 => self.deps.has_plain_port,
            AcmeChallenge::TlsAlpn01 => true,
        });
        let mut kinds: Vec<ChallengeType> = usable
            .map(|kind| match kind {
                AcmeChallenge::Http01 => ChallengeType::Http01,
                AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
            })
            .collect();
        if !kinds.is_empty() {
            let first = usize::try_from(self.row.failures).unwrap_or(0) % kinds.len();
            kinds.rotate_left(first);
        }
        kinds
    }

    /// The request for the certificate, in DER.
    fn request(&self, key: &KeyPair) -> Result<Vec<u8>, OrderFailure> {
        let mut params = CertificateParams::new(self.deps.names.clone()).map_err(|error| unusable(&error))?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(key).map_err(|error| unusable(&error))?;
        Ok(request.der().to_vec())
    }
}

fn unusable(error: &rcgen::Error) -> OrderFailure {
    OrderFailure::Refused(format!("the request for the certificate cannot be made: {error}"))
}

/// The failure of a challenge: the authority reports what it saw instead of the answer.
async fn seen(order: &mut Order) -> OrderFailure {
    let state = order.state();
    let mut problem = state.error.clone();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(error) = state.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return OrderFailure::Refused(sentence(&error)).about(&name);
        }
    }
    let what = problem.take().map_or_else(|| "the authority did not say why".to_owned(), |problem| sentence(&problem));
    OrderFailure::Refused(what)
}

/// A refusal of the authority, with advice (RFC 8555 6.7).
fn sentence(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().and_then(|name| name.rsplit(':').next()).unwrap_or_default();
    let detail = problem.detail.as_deref().unwrap_or("no reason given").trim().trim_end_matches('.');
    let detail: String = detail.chars().filter(|sign| !sign.is_control()).take(300).collect();
    let help = match kind {
        "connection" | "tls" => {
            "let ports 80 and 443 through to this gateway from everywhere, by the name's IPv6 address too"
        }
        "dns" => "give the name an address record that leads here, and none that leads elsewhere",
        "unauthorized" | "incorrectResponse" => {
            "another server answers there: the name, or a port of it, leads elsewhere"
        }
        "caa" => "a CAA record of the name allows only other authorities",
        "rateLimited" => "too many orders were made for this name; the next one waits as long as the authority asks",
        "rejectedIdentifier" => "this authority issues nothing for such a name",
        "externalAccountRequired" => "set `external_account_id` and `external_account_key` in [tls]",
        "userActionRequired" => "the authority wants a person to do something first",
        "invalidContact" | "unsupportedContact" => "set another `email` in [tls], or none",
        "accountDoesNotExist" => "the authority has forgotten the account; the next order opens another",
        _ => "see its documentation",
    };
    format!("{detail} ({kind}): {help}")
}

fn is_of(problem: &Problem, kind: &str) -> bool {
    problem.r#type.as_deref().and_then(|name| name.rsplit(':').next()) == Some(kind)
}

// === impl OrderFailure ===

impl OrderFailure {
    /// The same, naming one of the names.
    fn about(self, name: &str) -> Self {
        match self {
            Self::Refused(what) => Self::Refused(format!("{name}: {what}")),
            other => other,
        }
    }

    /// The kind, which determines when the next order is due.
    pub(super) fn kind(&self, http: &AcmeHttp) -> FailureKind {
        match self {
            Self::Refused(_) | Self::NoAccount(_) => FailureKind::Refused(http.take_pause()),
            Self::Nonces | Self::Unreachable(_) | Self::Storage(_) | Self::Sealed(_) => FailureKind::Unreachable,
        }
    }

    /// True if the begun order is of no more use.
    pub(super) const fn ends_the_order(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NoAccount(_))
    }
}

impl From<Error> for OrderFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) if is_of(&problem, "badNonce") => Self::Nonces,
            Error::Api(problem) if is_of(&problem, "accountDoesNotExist") => Self::NoAccount(sentence(&problem)),
            Error::Api(problem) => Self::Refused(sentence(&problem)),
            Error::Timeout(_) => Self::Unreachable("it has not decided in two minutes".to_owned()),
            Error::Other(cause) => match cause.downcast_ref::<Silent>() {
                Some(silent) => Self::Unreachable(silent.to_string()),
                None => Self::Refused(cause.to_string()),
            },
            error @ (Error::Json(_) | Error::Http(_)) => {
                Self::Unreachable(format!("it is not an ACME server ({error})"))
            }
            error => Self::Refused(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_helps() {
        let problem: Problem = serde_json::from_value(serde_json::json!({
            "type": "urn:ietf:params:acme:error:dns", "detail": "NXDOMAIN looking up A for mcp.example.com.\u{7}", "status": 400,
        }))
        .unwrap();
        assert_eq!(
            sentence(&problem),
            "NXDOMAIN looking up A for mcp.example.com. (dns): give the name an address record that leads here, and none that leads elsewhere"
        );
    }
}
