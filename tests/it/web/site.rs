//! A gateway site in memory, and a browser with cookies.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use lockkeeper::{
    audit::Audit,
    fetch::{Fetcher, OpenClient},
    http::{Bound, GuardSettings},
    model::{
        AllowedNetworks, BackendId, Direct, EgressPolicy, GroupSpec, KeyId, LoginProvider, NewKey, Rights, UserId,
        status::{BackendState, BackendStatus, GroupStatus, OfferCounts, SessionStatus, Status, ToolCounts},
    },
    oauth::{self, OAuth},
    openid::{OpenIdDeps, Providers},
    storage::Storage,
    support::{Clock, ManualClock, Random, SealingKey, SeededRandom},
    upstream::{SignAssertion, Upstream, UpstreamDeps},
    vault::Vault,
    web,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use url::{Position, Url, form_urlencoded};

use crate::{
    kit::{person::server_fields, provider::OpenIdProvider},
    support::http::guarded,
};

/// The redirect URI of these tests' client: an app on this computer.
pub(super) const CALLBACK: &str = "http://127.0.0.1:33418/callback";

/// What a site chooses at random begins here.
const SEED: u64 = 42;

/// The address of the site.
pub(super) const ROOT: &str = "https://mcp.example.com";

/// A site, with a key for its owner.
pub(super) struct Site {
    pub(super) oauth: OAuth,
    pub(super) clock: Arc<ManualClock>,
    pub(super) key: String,
    pub(super) key_id: KeyId,
    pub(super) web: web::WebState,
    root: Url,
    app: Router,
}

/// A browser with its session cookie.
pub(super) struct Browser<'a> {
    site: &'a Site,
    pub(super) cookie: Option<String>,
    /// Cookies of logins that are under way at a provider.
    pub(super) logins: BTreeMap<String, String>,
    /// Cookies of the visits of the last minutes.
    pub(super) visits: BTreeMap<String, String>,
}

/// A response, as the browser sees it.
pub(super) struct Seen {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// No protected servers.
fn upstream(storage: &Storage, clock: &Arc<dyn Clock>, random: &Arc<dyn Random>) -> Upstream {
    let master = SealingKey::ephemeral(&**random);
    let deps = UpstreamDeps {
        storage: storage.clone(),
        vault: Vault::new(storage.clone(), master.clone(), Arc::clone(clock), Arc::clone(random)),
        ticket_key: master,
        clock: Arc::clone(clock),
        random: Arc::clone(random),
        issuer: ROOT.to_owned(),
        sign: SignAssertion::new(|_| None),
        fetcher: Fetcher::system(&EgressPolicy::default()).unwrap(),
        open: OpenClient::direct().unwrap(),
        audit: Audit::new(storage.clone(), Arc::clone(clock)),
    };
    Upstream::new(deps, &[], TaskTracker::new(), CancellationToken::new())
}

impl Site {
    pub(super) async fn open() -> Self {
        Self::on(crate::support::empty_storage().await).await
    }

    /// A site with the group `work` of the backends `files` and `search`.
    pub(super) async fn with_group() -> Self {
        let id = |name| BackendId::parse(name).unwrap();
        let group = GroupSpec { id: id("work"), servers: vec![id("files"), id("search")], tools: None };
        let site = Self::open().await;
        site.oauth.replace_backends(vec![id("files"), id("search")], std::iter::once(group).collect());
        site
    }

    pub(super) async fn on(storage: Storage) -> Self {
        Self::with(storage, oauth::OAuthSettings::new(ROOT)).await
    }

    pub(super) async fn with(storage: Storage, settings: oauth::OAuthSettings) -> Self {
        Self::seeded((storage, settings, SEED)).await
    }

    /// A site that chooses other things at random than one with another seed.
    pub(super) async fn seeded(base: (Storage, oauth::OAuthSettings, u64)) -> Self {
        Self::assemble(base, ROOT, Arc::default(), |_, _| Providers::default()).await
    }

    /// A site at this address.
    pub(super) async fn at(root: &str) -> Self {
        let base = (crate::support::empty_storage().await, oauth::OAuthSettings::new(root), SEED);
        Self::assemble(base, root, Arc::default(), |_, _| Providers::default()).await
    }

    /// Another gateway on the same store, with the same master key.
    pub(super) async fn replica(&self, storage: Storage) -> Self {
        Self::assemble((storage, oauth::OAuthSettings::new(ROOT), SEED), ROOT, Arc::clone(&self.clock), |_, _| {
            Providers::default()
        })
        .await
    }

    /// A site with a provider at which people log in, as configured.
    pub(super) async fn with_provider(spec: LoginProvider) -> (Self, OpenIdProvider) {
        let clock: Arc<ManualClock> = Arc::default();
        let provider = OpenIdProvider::open(Arc::clone(&clock));
        let fetcher = provider.internet.fetcher();
        let base = (crate::support::empty_storage().await, oauth::OAuthSettings::new(ROOT), SEED);
        let site = Self::assemble(base, ROOT, clock, |clock, random| {
            let key = SealingKey::ephemeral(&*random);
            Providers::new(vec![spec], OpenIdDeps { fetcher, clock, random, key, root: ROOT.to_owned() })
        });
        (site.await, provider)
    }

    async fn assemble(
        (storage, settings, seed): (Storage, oauth::OAuthSettings, u64),
        root: &str,
        clock: Arc<ManualClock>,
        providers: impl FnOnce(Arc<dyn Clock>, Arc<dyn Random>) -> Providers,
    ) -> Self {
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
        let given: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let providers = providers(Arc::clone(&given), Arc::clone(&random));
        let oauth = OAuth::open(storage.clone(), Arc::clone(&given), Arc::clone(&random), settings).await.unwrap();
        let public_url = Url::parse(root).unwrap();
        let state = web::WebState {
            upstream: upstream(&storage, &given, &random),
            oauth: oauth.clone(),
            storage,
            clock: given,
            random: Arc::clone(&random),
            settings: web::WebSettings::new(public_url.clone()),
            providers,
            tasks: TaskTracker::new(),
            status: Arc::new(|_| status()),
            tools: Arc::new(|_, server, _| tools(server.as_str())),
        };
        let app = web::router(state.clone()).merge(oauth.router());
        let app = guarded(app, &GuardSettings::new(public_url.clone(), Bound::Network, random));
        let (key_id, key) = make_key(&oauth, "owner's key", (Some("owner"), Rights::all_backends())).await;
        Self { oauth, clock, key, key_id, web: state, root: public_url, app }
    }

    pub(super) fn browser(&self) -> Browser<'_> {
        Browser { site: self, cookie: None, logins: BTreeMap::new(), visits: BTreeMap::new() }
    }

    /// A key of a user: its id and its text.
    pub(super) async fn key_for(&self, user: &str) -> (KeyId, String) {
        make_key(&self.oauth, &format!("{user}'s key"), (Some(user), Rights::all_backends())).await
    }

    /// Another key of the owner.
    pub(super) async fn joined_key(&self, name: &str, rights: Rights) -> String {
        make_key(&self.oauth, name, (Some("owner"), rights)).await.1
    }

    /// A key that is its own user.
    pub(super) async fn own_key(&self, name: &str, rights: Rights) -> String {
        make_key(&self.oauth, name, (None, rights)).await.1
    }

    /// Registers a client and returns its id.
    pub(super) async fn register(&self, name: &str, redirect_uri: &str) -> String {
        let metadata = serde_json::json!({ "client_name": name, "redirect_uris": [redirect_uri] });
        let request = Request::post("/oauth/register").header(header::CONTENT_TYPE, "application/json");
        let answer = self.send(request, metadata.to_string()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        let metadata: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        metadata["client_id"].as_str().unwrap().to_owned()
    }

    /// Redeems a code, as the client does.
    pub(super) async fn redeem(&self, client: &str, code: &str) -> serde_json::Value {
        let form = encode(&[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        ]);
        let answer = self.send(post("/oauth/token"), form).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    pub(super) async fn send(&self, mut request: http::request::Builder, body: String) -> Seen {
        if request.headers_ref().is_some_and(|headers| !headers.contains_key(header::HOST)) {
            request = request.header(header::HOST, &self.root[Position::BeforeHost..Position::AfterPort]);
        }
        let answer = self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Seen { status: parts.status, headers: parts.headers, body }
    }
}

impl Browser<'_> {
    pub(super) async fn get(&mut self, path: &str) -> Seen {
        self.send(Request::get(path), String::new()).await
    }

    pub(super) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Seen {
        self.send(post(path), encode(fields)).await
    }

    pub(super) async fn send(&mut self, mut request: http::request::Builder, body: String) -> Seen {
        let logins = self.logins.iter().chain(&self.visits).map(|(name, value)| format!("{name}={value}"));
        let cookies: Vec<String> = self.cookie.iter().cloned().chain(logins).collect();
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        let seen = self.site.send(request, body).await;
        for cookie in seen.headers.get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            let pair = cookie.split(';').next().unwrap();
            match pair.split_once('=').unwrap() {
                (name, _) if name.contains("-login-") && cookie.contains("Max-Age=0") => {
                    self.logins.remove(name);
                }
                (name, _)
                    if (name.contains("-visit-") || name.ends_with("-choose")) && cookie.contains("Max-Age=0") =>
                {
                    self.visits.remove(name);
                }
                (name, value) if name.contains("-visit-") || name.ends_with("-choose") => {
                    self.visits.insert(name.to_owned(), value.to_owned());
                }
                (name, value) if name.contains("-login-") => {
                    self.logins.insert(name.to_owned(), value.to_owned());
                }
                _ => self.cookie = Some(pair.to_owned()),
            }
        }
        seen
    }

    /// Follows an authorization request to the login page or the decision.
    pub(super) async fn authorize(&mut self, client: &str, more: &[(&str, &str)]) -> Seen {
        self.get(&authorize_path(client, more)).await
    }

    /// Presses a button of the login or consent page.
    pub(super) async fn press(&mut self, page: &Seen, decision: &str, key: &str) -> Seen {
        let (token, transaction) = (page.field("token"), page.field("transaction"));
        let servers = page.servers();
        let servers = servers.iter().map(|(name, value)| (*name, value.as_str()));
        let fields = [("token", &*token), ("transaction", &*transaction), ("decision", decision), ("key", key)];
        self.post("/oauth/authorize", &fields.into_iter().chain(servers).collect::<Vec<_>>()).await
    }

    /// Logs in on the page of an authorization request, and follows to the decision.
    pub(super) async fn log_in(&mut self, page: &Seen, key: &str) -> Seen {
        let answer = self.press(page, "log-in", key).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        let next = answer.location().to_owned();
        self.get(&next).await
    }

    /// Presses the button of the provider on a login page; returns where the browser is sent.
    pub(super) async fn choose_provider(&mut self, page: &Seen) -> Seen {
        let token = page.field("token");
        let transaction = page.body.contains("name=\"transaction\"").then(|| page.field("transaction"));
        let fields = [("token", &*token), ("transaction", transaction.as_deref().unwrap_or_default())];
        self.post("/oauth/login/start", &[&fields[..], &[("provider", "corp")]].concat()).await
    }

    /// Returns from the provider with this answer.
    pub(super) async fn return_with(&mut self, answer: &str) -> Seen {
        self.get(&format!("/oauth/login/callback/corp?{answer}")).await
    }

    /// Logs in at the provider without an authorization request.
    pub(super) async fn log_in_at(&mut self, provider: &OpenIdProvider) -> Seen {
        let page = self.get("/login").await;
        let start = self.choose_provider(&page).await;
        let answer = provider.log_in(start.location());
        self.return_with(&answer).await
    }

    /// Logs in without an authorization request.
    pub(super) async fn log_in_alone(&mut self, key: &str) -> Seen {
        let page = self.get("/login").await;
        self.post("/login", &[("token", &page.field("token")), ("key", key)]).await
    }
}

impl Seen {
    /// The value of a hidden field.
    pub(super) fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let rest = self.body.split_once(&start).map(|(_, rest)| rest);
        let rest =
            rest.unwrap_or_else(|| unreachable!("no field {name} on this page ({}): {}", self.status, self.body));
        rest.split('"').next().unwrap().to_owned()
    }

    /// The fields of a consent page about servers, as they are at first.
    pub(super) fn servers(&self) -> Vec<(&'static str, String)> {
        server_fields(&self.body)
    }

    pub(super) fn location(&self) -> &str {
        self.headers[header::LOCATION].to_str().unwrap()
    }

    /// The address to which the browser goes on by itself, after a page that is read for a moment.
    pub(super) fn next(&self) -> &str {
        let next = self.headers[header::REFRESH].to_str().unwrap();
        next.strip_prefix("3; url=").unwrap_or_else(|| panic!("{next}"))
    }

    /// The parameters of the redirect.
    pub(super) fn told(&self) -> Vec<(String, String)> {
        Url::parse(self.location()).unwrap().query_pairs().into_owned().collect()
    }

    /// The heading of the page.
    pub(super) fn heading(&self) -> &str {
        let (_, rest) = self
            .body
            .split_once("<h1>")
            .unwrap_or_else(|| unreachable!("no heading on this page ({}): {}", self.status, self.body));
        rest.split("</h1>").next().unwrap()
    }

    /// The page without values that change with each request.
    pub(super) fn without_token(&self) -> String {
        let page = self.body.replace(&self.field("token"), "TOKEN");
        self.refusal().map_or(page.clone(), |code| page.replace(code, "REFUSAL"))
    }

    /// The code of the refusal that the page shows.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.body.split_once("efusal <code>")?.1.split('<').next()
    }
}

pub(super) fn post(path: &str) -> http::request::Builder {
    Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
}

pub(super) fn encode(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

pub(super) fn authorize_path(client: &str, more: &[(&str, &str)]) -> String {
    let fields = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", CALLBACK),
        // RFC 7636, appendix B
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ];
    let kept = fields.iter().filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
    let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
    format!("/oauth/authorize?{}", encode(&fields))
}

async fn make_key(oauth: &OAuth, name: &str, (user, rights): (Option<&str>, Rights)) -> (KeyId, String) {
    let new = NewKey {
        name: name.to_owned(),
        user: user.map(UserId::new),
        rights,
        direct: Direct::Refused,
        expires: None,
        networks: AllowedNetworks::default(),
    };
    let (key, secret) = oauth.keys().create(new).await.unwrap();
    (key.id, secret.expose().to_owned())
}

/// What is known of the tools of the servers: nothing of `search`.
fn tools(server: &str) -> Option<ToolCounts> {
    (server != "search").then_some(ToolCounts { tools: 11, changing: 4, read_only: 7 })
}

fn status() -> Status {
    let backend = |id: &str, state| BackendStatus {
        counts: OfferCounts { tools: 11, prompts: 0, resources: 1 },
        sessions: 1,
        ..BackendStatus::new(id.to_owned(), "stdio", state)
    };
    let session = |user: &str, client: &str| SessionStatus {
        id: Some("01234567".to_owned()),
        user: user.to_owned(),
        key_name: None,
        client: client.to_owned(),
        endpoint: "/mcp".to_owned(),
        protocol_version: "2025-06-18".to_owned(),
        idle_seconds: 90,
        rights: Some(Rights::all_backends()),
        grant: None,
    };
    let reason = "the file /etc/secret was not found".to_owned();
    Status {
        configuration: Vec::new(),
        version: "0.1.0".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        url: format!("{ROOT}/mcp"),
        summary: String::new(),
        certificate: None,
        process: None,
        network: Vec::new(),
        memory: None,
        backends: vec![
            backend("files", BackendState::Ready),
            backend("search", BackendState::Failed { reason, retry_in: Some(8) }),
        ],
        groups: vec![GroupStatus {
            id: "work".to_owned(),
            url: format!("{ROOT}/mcp/work"),
            servers: vec!["files".to_owned(), "search".to_owned()],
        }],
        sessions: vec![
            session("owner", "claude-code 2.1"),
            session("somebody", "cursor 1.0"),
            SessionStatus { id: None, protocol_version: "2026-07-28".to_owned(), ..session("owner", "rover 3") },
        ],
    }
}
