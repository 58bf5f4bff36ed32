//! Login of a person in the browser: the authorization code grant with PKCE (RFC 6749 4.1, RFC 7636, RFC 8252).

use std::{fmt, sync::Arc, time::Duration};

use url::Url;

use super::{
    authorization_request::{LoginWish, OpenAuthorization},
    callback::{Callback, LoopbackUri},
    challenge::BearerChallenge,
    discovery::{AuthorizationServer, Discovered, discover},
    error::LoginError,
    http::OAuthHttp,
    login_file::{Login, LoginFile, LoginLock, SavedLogin, TokenSet, WaitingLogin},
    parameters::{OfflineAccess, covers, union},
    refusal::RefusalMeaning,
    registration::{ApplicationType, ClientIdentity, ClientRegistration, RegisteredClient, identify},
    saved_tokens::{IssuedTokens, SavedTokens},
    server_identity::ResourceServer,
    tokens::TokenSource,
};
use crate::{
    model::AuthorizationSettings,
    support::{Clock, Random},
};

/// Maximum time for a person to log in; the request in the browser stays valid as long, no matter which process takes
/// its response.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(10);

#[derive(Clone)]
pub struct OpenBrowser(Arc<Open>);

type Open = dyn Fn(&Url, Attempt) + Send + Sync;

/// A new request, or a repeated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    New,
    /// The request was opened by a process that has ended.
    Resumed,
}

/// A server, and the login there.
#[derive(Debug)]
pub struct LoginTarget {
    pub server: Url,
    /// The name of this client, for people at the authorization server.
    pub client_name: String,
    pub http: OAuthHttp,
    pub file: LoginFile,
    pub identity: ClientIdentity,
    /// Settings that override what the server says.
    pub settings: AuthorizationSettings,
    /// Scopes to ask for, separated by spaces. If absent: the scopes that the server names.
    pub scope: Option<String>,
    /// The redirect URI registered for a given identity. If absent: one with any port.
    pub redirect_uri: Option<LoopbackUri>,
    /// Digest of the headers of requests to the server; `None` if there are none.
    pub headers: Option<String>,
}

pub(super) struct BrowserLogin {
    pub(super) target: LoginTarget,
    browser: OpenBrowser,
    pub(super) clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

/// A request waiting for its response.
struct ShownRequest {
    callback: Callback,
    pending: WaitingLogin,
}

// === impl OpenBrowser ===

impl OpenBrowser {
    /// Shows URLs with `open`.
    pub fn new(open: impl Fn(&Url, Attempt) + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for OpenBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenBrowser")
    }
}

// === impl LoginTarget ===

impl LoginTarget {
    const fn resource_server(&self) -> ResourceServer<'_> {
        ResourceServer { url: &self.server, settings: &self.settings }
    }

    /// True if `client` has the identity and the redirect URI of this login.
    fn is_for(&self, client: &RegisteredClient) -> bool {
        let given = self.redirect_uri.as_ref();
        self.identity.is(client) && given.is_none_or(|uri| uri.is(&client.redirect_uri))
    }
}

// === impl BrowserLogin ===

impl BrowserLogin {
    pub(super) const fn new(
        target: LoginTarget,
        browser: OpenBrowser,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self { target, browser, clock, random }
    }

    /// Reads the login, without anything that does not belong to the server with its current settings.
    pub(super) fn read(&self) -> Result<Login, LoginError> {
        let server = self.target.resource_server();
        Ok(self.target.file.read()?.retain(|source| source.is_for(server)))
    }

    /// Logs a person in and saves the tokens, in place of earlier ones. A request that a person has seen less than ten
    /// minutes ago is not shown again. If the token endpoint does not know the client, it is registered again, once.
    pub(super) async fn log_in(
        &self,
        login: &mut Login,
        lock: &LoginLock,
        challenge: &BearerChallenge,
    ) -> Result<SavedTokens, LoginError> {
        match self.log_in_once(login, lock, challenge).await {
            Err(error) if error.is_of_client() && !self.target.identity.is_given() => {
                tracing::info!(server = %self.target.server, %error, "the client is registered anew");
                login.lost_client = true;
                self.log_in_once(login, lock, challenge).await
            }
            outcome => outcome.map_err(|error| self.target.identity.explain(error)),
        }
    }

    async fn log_in_once(
        &self,
        login: &mut Login,
        lock: &LoginLock,
        challenge: &BearerChallenge,
    ) -> Result<SavedTokens, LoginError> {
        let resumed = self.resume(login, challenge).await;
        let (request, attempt) = match resumed {
            Some(request) => (request, Attempt::Resumed),
            None => (self.begin(login, lock, challenge).await?, Attempt::New),
        };
        let ShownRequest { callback, pending: WaitingLogin { source, client, open } } = request;
        (self.browser.0)(&open.url, attempt);
        let exchange = |code: String| async {
            let http = &self.target.http;
            let issued = source.exchange(code, &open.verifier, (&client).into(), http, self.clock.now()).await;
            issued.map(|issued: IssuedTokens| issued.asked_for(open.scope()))
        };
        let answered = callback.answered(open.expected(&source), LOGIN_TIMEOUT, exchange).await;
        login.pending = None;
        let Some(tokens) = answered else {
            login.forget_unanswered_client(&client);
            self.target.file.write(login, lock)?;
            return Err(LoginError::Unavailable("nobody logged in within ten minutes".to_owned()));
        };
        match &tokens {
            Ok(tokens) => {
                login.state = SavedLogin::LoggedIn(Box::new(TokenSet { source, client, tokens: tokens.clone() }));
                login.headers.clone_from(&self.target.headers);
            }
            Err(_) if login.tokens().is_none() => login.state = SavedLogin::LoggedOut(Some(client)),
            // a person who denies further scopes keeps the earlier ones
            Err(_) => {}
        }
        self.target.file.write(login, lock)?;
        tokens
    }

    /// Takes up the request of a process that has ended, if its response can still be received.
    async fn resume(&self, login: &mut Login, challenge: &BearerChallenge) -> Option<ShownRequest> {
        let asks = |pending: &WaitingLogin| covers(pending.open.scope().as_deref(), challenge.wanted());
        let pending = login.pending.take().filter(|pending| !challenge.asks_for_more() || asks(pending))?;
        if self.clock.now().since(pending.open.begun) >= LOGIN_TIMEOUT {
            login.forget_unanswered_client(&pending.client);
            return None;
        }
        if !self.target.is_for(&pending.client) {
            return None;
        }
        let callback = Callback::bind(&LoopbackUri::parse(&pending.client.redirect_uri)?).await.ok()?;
        Some(ShownRequest { callback, pending })
    }

    /// A new request, saved so that other processes can take it over.
    async fn begin(
        &self,
        login: &mut Login,
        lock: &LoginLock,
        challenge: &BearerChallenge,
    ) -> Result<ShownRequest, LoginError> {
        let LoginTarget { http, identity, .. } = &self.target;
        let Discovered { resource, scope, server } = discover(http, self.target.resource_server(), challenge).await?;
        let scope = match (&self.target.scope, challenge.asks_for_more()) {
            (Some(own), true) => Some(union(Some(own), scope.as_deref())),
            (Some(own), false) => Some(own.clone()),
            (None, _) => scope,
        };
        let wish = LoginWish {
            scope: scope.as_deref(),
            authorize_params: &self.target.settings.authorize_params,
            offline: match login.tokens().and_then(SavedTokens::refreshable) {
                Some(_) => OfflineAccess::Held,
                None => OfflineAccess::Wanted,
            },
        };
        let source = TokenSource::new(&server, resource);
        let known = login.client_of(&server.issuer).filter(|client| self.target.is_for(client)).cloned();
        let kept = match known {
            Some(client) if self.is_lost(login, &source, &server, &client, wish).await => {
                if !login.register_again(self.clock.now()) {
                    let issuer = &server.issuer;
                    let text = format!("{issuer} has forgotten the client three times within an hour: try again later");
                    return Err(LoginError::Unavailable(text));
                }
                None
            }
            kept => kept,
        };
        let unusable =
            |error: std::io::Error| LoginError::Unavailable(format!("no port is free for the redirect URI ({error})"));
        // the registered port, unless another program has it
        let callback = match kept.as_ref().and_then(|client| LoopbackUri::parse(&client.redirect_uri)) {
            Some(uri) => Callback::bind(&uri).await.ok(),
            None => None,
        };
        let (callback, client) = if let (Some(callback), Some(client)) = (callback, kept) {
            (callback, client)
        } else {
            let callback =
                Callback::bind(&self.target.redirect_uri.clone().unwrap_or_default()).await.map_err(unusable)?;
            let redirect_uri = callback.redirect_uri().as_str().to_owned();
            let (name, application) = (self.target.client_name.clone(), ApplicationType::Native);
            let description = ClientRegistration { name, redirect_uri, scope: scope.as_deref(), application };
            (callback, identify(identity, &server, description, http, self.clock.now()).await?)
        };
        let open = self.request(&source, &server, &client, wish)?;
        let pending = WaitingLogin { source, client, open };
        login.server = self.target.server.to_string();
        login.pending = Some(pending.clone());
        self.target.file.write(login, lock)?;
        Ok(ShownRequest { callback, pending })
    }

    /// True if a registration is no longer of use: its secret has expired, or the authorization server says that it
    /// does not know the client. Otherwise the person would see the server's error, and no response would ever come.
    async fn is_lost(
        &self,
        login: &Login,
        source: &TokenSource,
        server: &AuthorizationServer,
        client: &RegisteredClient,
        wish: LoginWish<'_>,
    ) -> bool {
        let now = self.clock.now();
        if self.target.identity.is_given() {
            return false;
        }
        if login.has_lost_client() || client.is_over(now) {
            return true;
        }
        let Ok(request) = self.request(source, server, client, wish) else { return false };
        let refusal = self.target.http.refusal(&request.url, now).await;
        refusal.is_some_and(|refusal| refusal.meaning() == RefusalMeaning::ClientIsUnknown)
    }

    fn request(
        &self,
        source: &TokenSource,
        server: &AuthorizationServer,
        client: &RegisteredClient,
        wish: LoginWish<'_>,
    ) -> Result<OpenAuthorization, LoginError> {
        OpenAuthorization::new(source, server, client, wish, &*self.random, self.clock.now())
    }
}

impl fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrowserLogin({})", self.target.server)
    }
}
