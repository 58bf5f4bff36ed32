//! The login of a user at the authorization server of a server (`UP-3`, `UP-6`): the scopes to request, the request
//! after the user's consent, and the response.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};
use zeroize::Zeroizing;

use super::{
    account_tokens::{AccountTokens, StoredAccount},
    assertion,
    context::UpstreamContext,
    error::UpstreamError,
    identity::{self, ClientSource},
    keepers::Keepers,
    servers::{ProtectedServer, ProtectedServers},
    ticket::{self, TicketRefusal},
};
use crate::{
    audit::ServerEvent,
    model::{BackendId, UserId},
    oauth_client::{
        ClientIdentity, Discovered, LoginError, LoginWish, OfflineAccess, OpenAuthorization, RefusalMeaning,
        RegisteredClient, SavedTokens, TokenSource, discover, is_server, union,
    },
    storage::{UpstreamForm, UpstreamRequestBinding, UpstreamRequestRow},
    support::{Digest, SealingKey, Secret},
    vault::{VaultError, VaultOwner, VaultPlace},
};

/// Time for the user to log in.
const REQUEST_LIFE: Duration = Duration::from_mins(10);
/// The field of requests in the vault.
const REQUEST: &str = "request";
/// Purpose of the key that seals the address for a form.
const LOCATION: &str = "lockkeeper upstream location v1";
/// Interval for checking a login that another visit is finishing.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of checks: 30 seconds, enough for every request to an authorization server to end.
const MAX_LOOKS: usize = 300;

/// Logins at authorization servers.
#[derive(Clone)]
pub struct Logins {
    context: UpstreamContext,
    servers: Arc<ProtectedServers>,
    keepers: Arc<Keepers>,
}

/// Description of a login before it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginPreview {
    /// Host of the server.
    pub server: String,
    /// Host of its authorization server, where the browser goes.
    pub authorization_server: String,
    /// The resource that the tokens will be for, unless it is the server.
    pub resource: Option<String>,
    /// The scopes to request.
    pub scopes: Vec<String>,
}

/// A browser's request for a login.
#[derive(Debug, Clone, Copy)]
pub struct ServerLogin<'a> {
    /// The user who is logged in at the gateway.
    pub user: &'a UserId,
    /// Digest of the browser session.
    pub browser: Digest,
    pub backend: &'a BackendId,
    /// The opaque part of the page's address.
    pub ticket: Option<&'a str>,
    /// The page to continue with after the login.
    pub next: Option<&'a str>,
}

#[derive(Debug)]
pub enum LoginBeginning {
    /// The address to send the browser to.
    Away(Url),
    /// The form has begun a login before, and its response has come.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginOutcome {
    /// The account is connected; the page to continue with.
    Connected(Option<String>),
    /// The user denied access; the page to continue with.
    Denied(Option<String>),
}

/// The stored end of a request.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredOutcome {
    Ended(LoginOutcome),
    /// The authorization server refused, for this reason.
    Failed(String),
}

/// Reason why a login cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum LoginProblem {
    #[error("users do not log in at this server")]
    UnknownServer,
    /// The address of the page has expired, or is for another user.
    #[error("the address of the page cannot be used")]
    Ticket(TicketRefusal),
    /// The response matches no request of this browser and user, or an expired one.
    #[error("the response belongs to no open request")]
    NoRequest,
    /// An earlier visit with the same response has failed, for this reason.
    #[error("{0}")]
    Failed(String),
    /// An earlier visit with the same response is still running.
    #[error("the response has already arrived, and the outcome is not known yet")]
    Unknown,
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// A request in the store.
#[derive(Serialize, Deserialize)]
struct StoredRequest {
    source: TokenSource,
    client: RegisteredClient,
    open: OpenAuthorization,
    next: Option<String>,
    /// The scopes that the server has asked for since the last login.
    #[serde(default)]
    stepped_up: Option<String>,
}

// === impl ServerLogin ===

impl<'a> ServerLogin<'a> {
    const fn binding(self) -> UpstreamRequestBinding<'a> {
        UpstreamRequestBinding { user: self.user, backend: self.backend, browser: self.browser }
    }
}

// === impl Logins ===

impl Logins {
    pub(super) fn new(context: UpstreamContext, servers: Arc<ProtectedServers>, keepers: Arc<Keepers>) -> Self {
        Self { context, servers, keepers }
    }

    /// Describes a login before it begins. Nothing is stored.
    ///
    /// # Errors
    ///
    /// [`LoginProblem`].
    pub async fn preview(&self, request: ServerLogin<'_>) -> Result<LoginPreview, LoginProblem> {
        let server = self.server(request.backend)?;
        let asked = self.ticket(request).await?;
        let found = self.discover(request.backend, &server).await?;
        let scope = scope(&server, &found, asked);
        let host = |url: &Url| {
            let name = url.host_str().unwrap_or_default();
            url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
        };
        Ok(LoginPreview {
            server: host(&server.url),
            authorization_server: host(&found.server.authorization_endpoint),
            resource: found.resource.filter(|resource| !is_server(resource, &server.url)),
            scopes: scope.iter().flat_map(|scope| scope.split_ascii_whitespace()).map(str::to_owned).collect(),
        })
    }

    /// The address to send the browser to, once the user has consented in the form with this token. The same form gets
    /// the same address until its response has come.
    ///
    /// # Errors
    ///
    /// [`LoginProblem`].
    pub async fn begin(&self, request: ServerLogin<'_>, form: &Secret) -> Result<LoginBeginning, LoginProblem> {
        if let Some(begun) = self.begun(request, form).await? {
            return Ok(begun);
        }
        let server = self.server(request.backend)?;
        let asked = self.ticket(request).await?;
        let found = self.discover(request.backend, &server).await?;
        let scope = scope(&server, &found, asked.clone());
        let offline = self.offline(request, &server).await?;
        let authorize_params = &server.client.settings.authorize_params;
        let wish = LoginWish { scope: scope.as_deref(), authorize_params, offline };
        let source = TokenSource::new(&found.server, found.resource.clone());
        let (mut client, origin) = self.client(request.backend, &server, &found, scope.as_deref()).await?;
        let mut open = self.open(&source, &found, &client, wish)?;
        // otherwise the user would see an error there, and no response would ever come
        if origin == ClientSource::Kept && self.is_forgotten(&server, &open).await {
            identity::forget(&self.context, request.backend, &source.issuer).await?;
            (client, _) = self.client(request.backend, &server, &found, scope.as_deref()).await?;
            open = self.open(&source, &found, &client, wish)?;
        }
        let (url, state) = (open.url.clone(), Digest::sha256(&open.state));
        let stored = StoredRequest { source, client, open, next: request.next.map(str::to_owned), stepped_up: asked };
        if self.store(request, state, form, &stored).await? {
            return Ok(LoginBeginning::Away(url));
        }
        // a concurrent submission of the same form
        Ok(self.begun(request, form).await?.unwrap_or(LoginBeginning::Over))
    }

    /// The login begun by the form with this token.
    async fn begun(&self, request: ServerLogin<'_>, form: &Secret) -> Result<Option<LoginBeginning>, UpstreamError> {
        let table = self.context.storage.upstream_clients();
        let begun = table.begun_by(&form.digest(), request.binding(), self.context.now()).await?;
        let Some(begun) = begun else { return Ok(None) };
        if begun.is_taken {
            return Ok(Some(LoginBeginning::Over));
        }
        let key = SealingKey::derived(form, LOCATION);
        let plain = key.open(&begun.location, LOCATION.as_bytes()).map_err(|_| VaultError::Form)?;
        let url = str::from_utf8(&plain).ok().and_then(|text| Url::parse(text).ok()).ok_or(VaultError::Form)?;
        Ok(Some(LoginBeginning::Away(url)))
    }

    /// Ends a login with the query of the redirect URI. A second visit waits for the outcome of the first and gets the
    /// same. The caller must run this to its end, even if the browser disconnects: the code of a response works only
    /// once.
    ///
    /// # Errors
    ///
    /// [`LoginProblem`].
    pub async fn finish(&self, request: ServerLogin<'_>, query: &str) -> Result<LoginOutcome, LoginProblem> {
        let server = self.server(request.backend)?;
        let state = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "state").map(|(_, state)| state);
        let state = Digest::sha256(state.ok_or(LoginProblem::NoRequest)?.as_bytes());
        let Some(stored) = self.take(request, &state).await? else { return self.awaited(request, &state).await };
        let outcome = self.exchange(request, &server, stored, query).await;
        let told = match &outcome {
            Ok(outcome) => StoredOutcome::Ended(outcome.clone()),
            Err(LoginProblem::Upstream(UpstreamError::Login(error))) => StoredOutcome::Failed(error.to_string()),
            // the log of the first visit has the reason
            Err(LoginProblem::Upstream(_)) => {
                StoredOutcome::Failed("the gateway could not handle the answer".to_owned())
            }
            Err(problem) => StoredOutcome::Failed(problem.to_string()),
        };
        let told = serde_json::to_string(&told).map_err(|_| UpstreamError::from(VaultError::Form))?;
        let ended = self.context.storage.upstream_clients().end_request(&state, &told).await;
        if let Err(error) = ended {
            tracing::warn!(%error, "the outcome of a login at a server could not be stored; a second visit will not see it");
        }
        outcome
    }

    /// Waits for the outcome of the first visit.
    async fn awaited(&self, request: ServerLogin<'_>, state: &Digest) -> Result<LoginOutcome, LoginProblem> {
        let table = self.context.storage.upstream_clients();
        for look in 0..MAX_LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK).await;
            }
            let taken = table.taken_request(state, request.binding(), self.context.now()).await;
            let taken = taken.map_err(UpstreamError::from)?.ok_or(LoginProblem::NoRequest)?;
            let Some(text) = taken.outcome else { continue };
            let told = serde_json::from_str(&text).map_err(|_| UpstreamError::from(VaultError::Form))?;
            return match told {
                StoredOutcome::Ended(outcome) => Ok(outcome),
                StoredOutcome::Failed(reason) => Err(LoginProblem::Failed(reason)),
            };
        }
        Err(LoginProblem::Unknown)
    }

    /// Reads a response, and exchanges its code for tokens.
    async fn exchange(
        &self,
        request: ServerLogin<'_>,
        server: &ProtectedServer,
        stored: StoredRequest,
        query: &str,
    ) -> Result<LoginOutcome, LoginProblem> {
        let ServerLogin { user, backend, .. } = request;
        let StoredRequest { source, client, open, next, stepped_up } = stored;
        // the configuration may have changed since
        if !source.is_for(server.target()) {
            return Err(LoginProblem::NoRequest);
        }
        let code = match open.expected(&source).read(query).ok_or(LoginProblem::NoRequest)? {
            Ok(code) => code,
            Err(LoginError::Refused(refusal)) if refusal.is("access_denied") => {
                return Ok(LoginOutcome::Denied(next));
            }
            Err(error) => return Err(UpstreamError::from(error).into()),
        };
        let proven = assertion::authenticated(&self.context, &client, &source)?;
        let http = server.http(&self.context).map_err(UpstreamError::from)?;
        let identity = identity::configured(&server.client)?.unwrap_or(ClientIdentity::Registered);
        let exchanged = source.exchange(code, &open.verifier, proven, &http, self.context.now()).await;
        let exchanged = exchanged.map_err(|error| UpstreamError::from(identity.explain(error)));
        if let Err(error) = &exchanged
            && error.is_of_client()
        {
            identity::forget(&self.context, backend, &source.issuer).await?;
        }
        let reach = (server.url.clone(), server.client.network);
        let tokens = SavedTokens { stepped_up, ..exchanged?.asked_for(open.scope()) };
        let connection = AccountTokens { tokens, source, client, server: reach };
        connection.add(&self.context, user, backend, server.digest).await?;
        self.context.audit.record(ServerEvent::Connected(user.clone(), backend.clone()));
        self.keepers.logged_in(user, backend);
        Ok(LoginOutcome::Connected(next))
    }

    fn server(&self, backend: &BackendId) -> Result<ProtectedServer, LoginProblem> {
        let server = self.servers.find(backend).ok_or(LoginProblem::UnknownServer)?;
        match server.fault {
            Some(fault) => Err(UpstreamError::from(LoginError::Untrusted(fault.to_owned())).into()),
            None => Ok(server),
        }
    }

    /// Offline access to request: `Held` if the user's tokens at this server can already be refreshed.
    async fn offline(&self, login: ServerLogin<'_>, server: &ProtectedServer) -> Result<OfflineAccess, UpstreamError> {
        let stored = StoredAccount::load(&self.context, login.user, login.backend, server).await?;
        let is_held = stored.is_some_and(|stored| stored.account.tokens.refreshable().is_some());
        Ok(if is_held { OfflineAccess::Held } else { OfflineAccess::Wanted })
    }

    /// The scopes in the page's ticket; without one, the scopes that the server has asked for beyond the token's.
    async fn ticket(&self, request: ServerLogin<'_>) -> Result<Option<String>, LoginProblem> {
        let Some(text) = request.ticket else { return Ok(self.keepers.wanted(request.user, request.backend)) };
        let read = ticket::read(&self.context, request.user, request.backend, text).await;
        read.map_err(UpstreamError::from)?.map_err(LoginProblem::Ticket)
    }

    async fn discover(&self, backend: &BackendId, server: &ProtectedServer) -> Result<Discovered, UpstreamError> {
        let (now, target) = (self.context.now(), server.target());
        if let Some(found) = self.context.discoveries.find(backend, target, now) {
            return Ok(found);
        }
        let http = server.http(&self.context)?;
        let challenge = http.challenge(&server.url).await?;
        let found = discover(&http, target, &challenge).await?;
        self.context.discoveries.remember(backend, target, found.clone(), now);
        Ok(found)
    }

    async fn client(
        &self,
        backend: &BackendId,
        server: &ProtectedServer,
        found: &Discovered,
        scope: Option<&str>,
    ) -> Result<(RegisteredClient, ClientSource), UpstreamError> {
        identity::client(&self.context, backend, server, &found.server, scope).await
    }

    /// True if the authorization server no longer knows a client that it registered earlier.
    async fn is_forgotten(&self, server: &ProtectedServer, open: &OpenAuthorization) -> bool {
        let Ok(http) = server.http(&self.context) else { return false };
        let refusal = http.refusal(&open.url, self.context.now()).await;
        refusal.is_some_and(|refusal| refusal.meaning() == RefusalMeaning::ClientIsUnknown)
    }

    fn open(
        &self,
        source: &TokenSource,
        found: &Discovered,
        client: &RegisteredClient,
        wish: LoginWish<'_>,
    ) -> Result<OpenAuthorization, UpstreamError> {
        let (random, now) = (&*self.context.random, self.context.now());
        Ok(OpenAuthorization::new(source, &found.server, client, wish, random, now)?)
    }

    /// Stores the request of a form. Returns false if the form already has one.
    async fn store(
        &self,
        request: ServerLogin<'_>,
        state: Digest,
        form: &Secret,
        stored: &StoredRequest,
    ) -> Result<bool, UpstreamError> {
        let ServerLogin { user, backend, browser, .. } = request;
        let (now, issuer) = (self.context.now(), stored.source.issuer.clone());
        let text = Zeroizing::new(serde_json::to_vec(stored).map_err(|_| VaultError::Form)?);
        let sealed = self.context.vault.seal(place(user, backend, &issuer), &text).await?;
        let (user, backend, expires) = (user.clone(), backend.clone(), now + REQUEST_LIFE);
        let row = UpstreamRequestRow { state, user, backend, browser, issuer, sealed, expires };
        let (key, url) = (SealingKey::derived(form, LOCATION), stored.open.url.as_str());
        let location = key.seal(url.as_bytes(), LOCATION.as_bytes(), &*self.context.random);
        let form = UpstreamForm { digest: form.digest(), location: location.map_err(|_| VaultError::Form)? };
        Ok(self.context.storage.upstream_clients().add_request(&row, &form).await?)
    }

    /// Takes the request that a response belongs to. Only the browser and user that began it can take it, and only
    /// once.
    async fn take(&self, request: ServerLogin<'_>, state: &Digest) -> Result<Option<StoredRequest>, LoginProblem> {
        let ServerLogin { user, backend, .. } = request;
        let table = self.context.storage.upstream_clients();
        let taken = table.take_request(state, request.binding(), self.context.now()).await;
        let Some((issuer, sealed)) = taken.map_err(UpstreamError::from)? else { return Ok(None) };
        let text =
            self.context.vault.open(place(user, backend, &issuer), &sealed).await.map_err(UpstreamError::from)?;
        Ok(Some(serde_json::from_slice(&text).map_err(|_| UpstreamError::from(VaultError::Form))?))
    }
}

/// The scopes to request: the operator's, with any that the server has asked for since; if there are neither, the
/// server's.
fn scope(server: &ProtectedServer, found: &Discovered, asked: Option<String>) -> Option<String> {
    let Some(asked) = asked else { return server.client.scope.clone().or_else(|| found.scope.clone()) };
    Some(found.server.with_offline_access(union(server.client.scope.as_deref(), Some(&asked))))
}

fn place<'a>(user: &'a UserId, backend: &'a BackendId, issuer: &'a str) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::User(user), backend: Some(backend), issuer, field: REQUEST }
}
